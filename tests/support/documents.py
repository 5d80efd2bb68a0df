"""The tables of the README, made from the code. `python -m tests.support.documents` writes them anew."""

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Literal, get_args, get_origin

from prometheus_client.metrics import MetricWrapperBase
from pydantic.fields import FieldInfo

from pipeline.contracts.effects import Effect
from pipeline.contracts.event_types import EVENT_TYPES
from pipeline.contracts.outcomes import Outcome
from pipeline.contracts.rejections import Reason
from pipeline.kafka.topics import load_topics
from pipeline.observe.metrics import METRICS
from pipeline.settings import Settings
from tests.support.cases import CASES

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
Table = list[tuple[str, ...]]
_MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def topics() -> Table:
    """A topic's key and what its description's first sentence says."""
    rows: Table = [("topic", "key", "kept", "what it holds")]
    for spec in load_topics():
        kept = (
            "last per key"
            if spec.config.cleanup_policy == "compact"
            else f"{spec.config.retention_ms // 86_400_000} days"
        )
        first = " ".join(spec.description.split()).split(". ")[0].rstrip(".")
        rows.append((f"`{spec.topic}`", spec.key.replace(", each part percent-encoded", ""), kept, first))
    return rows


_PLACES = ("name", "text", "arguments", "ok", "exit_code", "call_id")


def events() -> Table:
    """HMX-E's own types: the members that its schema names, else those that are read, the first of each kind."""
    rows: Table = [("event_type", "content")]
    for name, row in EVENT_TYPES.items():
        read = [found[0] for place in _PLACES if (found := getattr(row, place))]
        said = [*map(_member, row.content.model_fields.items())] if row.content else [f"`{one}`" for one in read]
        rows.append((f"`{name}`", ", ".join(dict.fromkeys(said))))
    return rows


def _member(named: tuple[str, FieldInfo]) -> str:
    name, field = named
    either = " (" + ", ".join(get_args(field.annotation)) + ")" if get_origin(field.annotation) is Literal else ""
    return f"`{name}`{either}"


def outcomes() -> Table:
    return [("outcome", "meaning"), *((f"`{outcome}`", outcome.meaning) for outcome in Outcome)]


def effects() -> Table:
    return [("name", "meaning"), *((f"`{effect}`", effect.meaning) for effect in Effect)]


def cases() -> Table:
    head = ("when", "what happens", "where it shows", "what to do")
    return [head, *((case.case, case.happens, case.shows, case.undo) for case in CASES)]


def reasons() -> Table:
    return [("reason", "step", "advice"), *((f"`{reason}`", str(reason.step), reason.advice) for reason in Reason)]


def metrics() -> Table:
    """A counter's name as it is exported, with `_total`."""
    rows: Table = [("metric", "labels", "meaning")]
    for metric in vars(METRICS).values():
        if isinstance(metric, MetricWrapperBase):
            (described,) = metric.describe()
            suffix = {"counter": "_total", "histogram": " (histogram)"}.get(described.type, "")
            name, _, kind = f"{described.name}{suffix}".partition(" ")
            labels = ", ".join(metric._labelnames)
            rows.append((f"`{name}`{kind and ' ' + kind}", labels, described.documentation))
    return rows


def settings() -> Table:
    said = _field_docs()
    rows: Table = [("variable", "default", "meaning")]
    for field in fields(Settings):
        assert field.default is not MISSING
        shown = f"`{field.default}`" if str(field.default or "") or field.default == 0 else ""
        name = field.metadata.get("variable", f"HMX_{field.name.upper()}")
        also = " (A secret: `_FILE` behind the name reads it from a file.)" if "secret" in field.metadata else ""
        rows.append((f"`{name}`", shown, said[field.name] + also))
    return rows


def _field_docs() -> dict[str, str]:
    """Field → the string that stands below it."""
    (made,) = (node for node in ast.parse(inspect.getsource(Settings)).body if isinstance(node, ast.ClassDef))
    said = {}
    for node, below in zip(made.body, made.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(below, ast.Expr):
            said[node.target.id] = str(ast.literal_eval(below.value))
    return said


TABLES: Mapping[str, Callable[[], Table]] = {
    "topics": topics,
    "events": events,
    "outcomes": outcomes,
    "effects": effects,
    "cases": cases,
    "reasons": reasons,
    "metrics": metrics,
    "settings": settings,
}


def markdown(table: Table) -> str:
    head, *rows = (f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in table)
    return "\n".join((head, "|" + "---|" * len(table[0]), *rows)) + "\n"


def with_tables(text: str) -> str:
    """The README's text with every marked table as the code says it."""
    return _MARKED.sub(lambda found: f"{found[1]}\n{markdown(TABLES[found[2]]())}\n{found[3]}", text)


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
