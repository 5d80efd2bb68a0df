"""What the pages under docs/ take from the code, each part as Markdown."""

import ast
import inspect
import re
import tokenize
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any, Literal, get_args, get_origin
from urllib.parse import unquote

import click
import typer.main
from prometheus_client.metrics import MetricWrapperBase
from pydantic.fields import FieldInfo

import hmx_pipeline
from hmx_pipeline.cli.app import application
from hmx_pipeline.compiler.registry import ARTIFACT_TYPES
from hmx_pipeline.contracts import limits as bounds
from hmx_pipeline.contracts.effects import Effect
from hmx_pipeline.contracts.event_types import AGENT_TYPES, EVENT_TYPES
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.contracts.rejections import Reason
from hmx_pipeline.kafka.topic_files import load_topics
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.packs.sections import SECTIONS
from hmx_pipeline.queries import context_pack
from hmx_pipeline.service import body, connection, fair_turns, memory, read_your_writes, websocket
from hmx_pipeline.service import events as taking
from hmx_pipeline.service.app import READING_EACH, create_app
from hmx_pipeline.service.hippocortex import learn
from hmx_pipeline.service.problems import ProblemKind
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.redis_keys import Keys
from tests.support import bill
from tests.support.cases import CASES

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(hmx_pipeline.__file__).parent
COMMANDS = typer.main.get_command(application())
Row = tuple[str, ...]
SHOWN, NAMES = 5, 8
"""Importers and names in a cell of the rooms' tables."""
LONGEST_TYPE = 40


_FLOW = re.compile(r"(?:Enters|Leaves|Input|Output)\b[^:]{0,60}: .+?\.(?= [A-Z|]|$)")


def table(head: Row, rows: Iterable[Row]) -> str:
    lines = (f"| {' | '.join(_cell(cell) for cell in row)} |" for row in (head, *rows))
    first, *rest = lines
    return "\n".join((first, "|" + "---|" * len(head), *rest)) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def first_sentence(text: str) -> str:
    """Of a docstring: up to the first full stop that ends a sentence, or the blank line."""
    paragraph = " ".join(text.strip().split("\n\n", 1)[0].split())
    return re.split(r"(?<=[.])\s+(?=[A-Z`'])", paragraph, maxsplit=1)[0].rstrip(".:")


def topics() -> str:
    """A topic's key and what its description's first sentence says."""
    rows = []
    for spec in load_topics():
        kept = (
            "last per key"
            if spec.config.cleanup_policy == "compact"
            else f"{spec.config.retention_ms // 86_400_000} days"
        )
        key = spec.key.replace(", each part percent-encoded", "")
        rows.append((f"`{spec.topic}`", key, kept, first_sentence(spec.description)))
    return table(("topic", "key", "kept", "what it holds"), rows)


_PLACES = ("name", "text", "arguments", "ok", "exit_code", "call_id")


def events() -> str:
    """HMX-E's own types: the members that its schema names, else those that are read, the first of each kind."""
    rows = []
    for name, row in EVENT_TYPES.items():
        read = [found[0] for place in _PLACES if (found := getattr(row, place))]
        said = [*map(_member, row.content.model_fields.items())] if row.content else [f"`{one}`" for one in read]
        rows.append((f"`{name}`", str(row.role), ", ".join(dict.fromkeys(said))))
    return table(("event_type", "role", "content"), rows)


def _member(named: tuple[str, FieldInfo]) -> str:
    name, field = named
    either = " (" + ", ".join(get_args(field.annotation)) + ")" if get_origin(field.annotation) is Literal else ""
    return f"`{name}`{either}"


def agent_events() -> str:
    rows = []
    for name, row in AGENT_TYPES.items():
        entity = row.projection.entity if row.projection else ""
        rows.append((f"`{name}`", str(row.role), f"`{entity}`" if entity else ""))
    return table(("event_type", "role", "entity"), rows)


def artifact_types() -> str:
    rows = [
        (f"`{name}`", f"`{kind.section}`", first_sentence(_module_doc(kind.needs)).removeprefix(f"{name}: "))
        for name, kind in ARTIFACT_TYPES.items()
    ]
    return table(("artifact_type", "section of a pack", "what it is"), rows)


def _module_doc(function: Callable[..., Any]) -> str:
    return inspect.getdoc(inspect.getmodule(function)) or ""


def sections() -> str:
    rows = [
        (f"`{rule.section}`", str(rule.weight), ", ".join(sorted(f"`{kind}`" for kind in rule.section.permitted)))
        for rule in SECTIONS
    ]
    return table(("section", "weight in the budget", "source types"), rows)


def schemas() -> str:
    names = sorted(path.name for path in (ROOT / "schemas" / "hmx-1.0").glob("*.json"))
    return "\n".join(f"- [`{name}`](../../schemas/hmx-1.0/{name})" for name in names) + "\n"


def outcomes() -> str:
    return table(("outcome", "meaning"), ((f"`{outcome}`", outcome.meaning) for outcome in Outcome))


def effects() -> str:
    return table(("name", "meaning"), ((f"`{effect}`", effect.meaning) for effect in Effect))


def reasons() -> str:
    rows = ((f"`{reason}`", str(reason.step), reason.advice) for reason in Reason)
    return table(("reason", "step", "what to do"), rows)


def cases() -> str:
    rows = ((case.case, case.happens, case.shows, case.undo) for case in CASES)
    return table(("when", "what happens", "where it shows", "what to do"), rows)


def limits() -> str:
    """Every constant of limits.py with its comment, under the comment that heads its group."""
    source = inspect.getsource(bounds)
    comments = {
        t.start[0]: t for t in tokenize.generate_tokens(StringIO(source).readline) if t.type == tokenize.COMMENT
    }
    heads = {line: t.string[2:] for line, t in comments.items() if t.start[1] == 0}
    groups: dict[str, list[Row]] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id not in ("KB", "MB"):
            head = heads[max(line for line in heads if line < node.lineno)]
            last = node.end_lineno or node.lineno
            said = " ".join(comments[n].string[2:] for n in range(node.lineno, last + 1) if n in comments)
            row = (f"`{node.target.id}`", _amount(node.target.id, getattr(bounds, node.target.id)), said)
            groups.setdefault(head, []).append(row)
    return "\n".join(f"### {head}\n\n{table(('bound', 'value', 'of what'), rows)}" for head, rows in groups.items())


def requests() -> str:
    """The bounds of what the service takes and of how long it waits."""
    mb, kb = bounds.MB, bounds.KB
    each = f"{taking.AT_ONCE_EACH} body that is checked, {context_pack.AT_ONCE_EACH} packs, {READING_EACH} reads"
    rows = [
        ("bytes of a request with events", f"{taking.BODY_BYTES // mb} MB", "413 `too_large`"),
        ("events in a request", f"{taking.REQUEST_EVENTS:,}", "413 `too_large`"),
        ("bytes of a question", f"{memory.REQUEST_BYTES // kb} KB", "413 `too_large`"),
        ("bytes of a frame of the WebSocket", f"{websocket.FRAME_BYTES // mb} MB", "the connection is closed"),
        ("requests of a tenant per minute and process", "`HMX_RATE_LIMIT`", "429 with `Retry-After`"),
        (
            "sessions of a tenant that are shown at the same time, per process",
            "2, and 8 of all",
            "it waits; after 10 s 503 `busy`",
        ),
        (
            "searches in `/docs/` per minute and process",
            "`HMX_RATE_LIMIT`, 8 words each",
            "429; further words are left out",
        ),
        ("work of a tenant at the same time, per process", each, f"it waits; after {fair_turns.WAIT_S:g} s 503 `busy`"),
        ("bodies of a tenant that are held", f"{body.TENANT_BYTES // mb} MB", "503 `busy`"),
        ("time for a request's head, or 1 KB of its body", f"{connection.STILL_S:g} s", "the connection is closed"),
        ("time that a pack waits for `after`", f"{read_your_writes.WAIT_S:g} s", "504 `not_yet`"),
        ("time that `POST /v1/learn` waits", f"{learn.ANSWER_S:g} s", "`status` is `partial`"),
    ]
    return table(("bound", "value", "beyond it"), rows)


def _amount(name: str, value: int) -> str:
    if value % bounds.MB == 0:
        return f"{value // bounds.MB:,} MB"
    if name.endswith("_BYTES") and value % bounds.KB == 0:
        return f"{value // bounds.KB:,} KB"
    if name.endswith("_MS"):
        return f"{value // 1000:,} s" if value % 1000 == 0 else f"{value} ms"
    return "2^64 - 1" if value == 2**64 - 1 else f"{value:,}"


def metrics() -> str:
    """A counter's name as it is exported, with `_total`."""
    rows = []
    for metric in vars(METRICS).values():
        if isinstance(metric, MetricWrapperBase):
            (described,) = metric.describe()
            suffix = {"counter": "_total", "histogram": " (histogram)"}.get(described.type, "")
            name, _, kind = f"{described.name}{suffix}".partition(" ")
            rows.append((f"`{name}`{kind and ' ' + kind}", ", ".join(metric._labelnames), described.documentation))
    return table(("metric", "labels", "meaning"), rows)


def settings() -> str:
    said = _field_docs()
    rows = []
    for field in fields(Settings):
        assert field.default is not MISSING
        shown = f"`{field.default}`" if str(field.default or "") or field.default == 0 else ""
        name = field.metadata.get("variable", f"HMX_{field.name.upper()}")
        also = " (A secret: `_FILE` behind the name reads it from a file.)" if "secret" in field.metadata else ""
        rows.append((f"`{name}`", shown, said[field.name] + also))
    return table(("variable", "default", "meaning"), rows)


def _field_docs() -> dict[str, str]:
    """Field → the string that stands below it."""
    (made,) = (node for node in ast.parse(inspect.getsource(Settings)).body if isinstance(node, ast.ClassDef))
    said = {}
    for node, below in zip(made.body, made.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(below, ast.Expr):
            said[node.target.id] = str(ast.literal_eval(below.value))
    return said


def routes() -> str:
    """From the OpenAPI document; the WebSocket, which OpenAPI does not know, stands at the end."""
    away = {"kafka_bootstrap": "localhost:1", "redis_url": "redis://localhost:1"}
    service = create_app(Settings(**away, mem0=1, openai_upstream="http://localhost:1"))
    rows = [
        (
            f"`{method.upper()} {path}`",
            f"`{said['operationId']}`",
            first_sentence(said.get("description", "")),
        )
        for path, methods in service.openapi()["paths"].items()
        for method, said in methods.items()
    ]
    rows.append(("`WebSocket /v1/hmx/events`", "", "An event a frame, an acknowledgement for each, in order"))
    return table(("route", "operation id", "what it does"), rows)


def problems() -> str:
    rows = ((f"`{kind}`", str(kind.status or "as it comes"), kind.heading) for kind in ProblemKind)
    return table(("type", "status", "meaning"), rows)


def commands() -> str:
    """Every command of `hmx` with its help, arguments and options."""
    return "\n".join(_command(words, command) for words, command in walk(COMMANDS, ("hmx",)))


def walk(command: click.Command, words: Row) -> Iterator[tuple[Row, click.Command]]:
    yield words, command
    for name, below in getattr(command, "commands", {}).items():
        yield from walk(below, (*words, name))


def command_of(words: list[str]) -> click.Command | None:
    """The command that these words name, options and arguments left out."""
    found: Any = COMMANDS
    for word in words:
        if not hasattr(found, "commands") or (word not in found.commands and found.invoke_without_command):
            break
        found = found.commands.get(word)
    return found if found is not COMMANDS else None


def _command(words: Row, command: click.Command) -> str:
    rows = []
    for parameter in (one for one in command.params if not getattr(one, "hidden", False)):
        option = parameter.param_type_name == "option"
        names = parameter.opts if option else [f"{parameter.name}".upper()]
        given = option and isinstance(parameter.default, str | int | float) and parameter.default is not False
        default = f"`{parameter.default}`" if given and parameter.default != "" else ""
        rows.append((", ".join(f"`{name}`" for name in names), default, getattr(parameter, "help", None) or ""))
    options = "\n" + table(("argument or option", "default", "meaning"), rows) if rows else ""
    return f"## {' '.join(words)}\n\n{inspect.cleandoc(command.help or '')}\n{options}"


def rooms() -> str:
    """Each room with its modules, a line each: the first sentence of the docstring, what it defines, who imports it."""
    found, uses = [], _uses()
    for room in (PACKAGE, *sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))):
        modules = sorted(room.glob("*.py") if room == PACKAGE else room.rglob("*.py"))
        rows = [
            (f"`{path.relative_to(room)}`", _said(path), _most_used(path, uses), _importers(path, uses))
            for path in modules
            if _told(path, room)
        ]
        head = ("module", "what it holds", "defines", "imported by")
        title = "Beside the rooms" if room == PACKAGE else room.name
        found.append(f"### {title}\n\n{_said(room / '__init__.py')}.\n\n{table(head, rows)}")
    return "\n".join(found)


def _most_used(path: Path, uses: Mapping[str, set[str]]) -> str:
    """The public names of a module, those that most modules import first; then the constants that any imports."""
    counts = {name: len(uses.get(f"{_name(path)}.{name}", ())) for name, _ in _defined(path)}
    told = [(name, text) for name, text in _defined(path) if counts[name] or not name.isupper()]
    told.sort(key=lambda one: (one[0].isupper(), -counts[one[0]]))
    return _some([f"`{text}`" for _, text in told], NAMES)


def _importers(path: Path, uses: Mapping[str, set[str]]) -> str:
    """The modules that import one, and what, if it is one name of several; of many those that are alone in their room,
    and how many the other rooms have."""
    found, names = sorted(uses.get(_name(path), ())), [name for name, _ in _defined(path)]
    if len(found) <= SHOWN:
        taken = {one: [name for name in names if one in uses.get(f"{_name(path)}.{name}", ())] for one in found}
        lone = {one: f": `{own[0]}`" for one, own in taken.items() if len(own) == 1 < len(names)}
        return ", ".join(f"`{one}`{lone.get(one, '')}" for one in found)
    rooms: dict[str, list[str]] = {}
    for one in found:
        rooms.setdefault(one.partition("/")[0], []).append(one)
    sizes = sorted(rooms.items(), key=lambda room: -len(room[1]))
    return ", ".join(f"`{room}` ({len(own)})" if len(own) > 1 else f"`{own[0]}`" for room, own in sizes)


def _some(names: list[str], most: int) -> str:
    """The first names, and how many there are besides; never one alone, which would be as long as its name."""
    shown = names if len(names) == most + 1 else names[:most]
    return ", ".join(shown) + (f" and {len(names) - most} more" if len(shown) < len(names) else "")


def _name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def _defined(path: Path) -> Iterator[tuple[str, str]]:
    """Public classes, functions and constants in the order of the file, as names and as they are told."""
    for node in _tree(path).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                told = name + _types(node)
            case (
                ast.ClassDef(name=name)
                | ast.AnnAssign(target=ast.Name(id=name))
                | ast.Assign(targets=[ast.Name(id=name)])
            ):
                told = name
            case _:
                continue
        if not name.startswith("_"):
            yield name, told


def _types(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """What enters and leaves, by the types alone; options and what they are made of are left out."""
    enters = [_type(one.annotation) for one in function.args.args if one.annotation is not None]
    return f"({', '.join(enters)})" + (f" → {_type(function.returns)}" if function.returns is not None else "")


def _type(annotation: ast.expr) -> str:
    match annotation:
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[plain, *_])):
            annotation = plain
    text = ast.unparse(annotation).strip("'")
    return text if len(text) <= LONGEST_TYPE else text[: LONGEST_TYPE - 1] + "…"


def _uses() -> dict[str, set[str]]:
    """Module, and module.name → the modules that import it, as `room/module`."""
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        user = path.relative_to(PACKAGE).with_suffix("").as_posix()
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in (node.module, *(f"{node.module}.{one.name}" for one in node.names)):
                    found.setdefault(name, set()).add(user)
    return found


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _told(path: Path, room: Path) -> bool:
    return path not in (room / "__init__.py", room / "__main__.py")


def _said(path: Path) -> str:
    """The first sentence of a module's docstring, and what it says enters and leaves."""
    told = ast.get_docstring(_tree(path)) or ""
    flows = _FLOW.findall(" ".join(told.split()))
    return ". ".join([first_sentence(told), *(one.rstrip(".") for one in flows)])


def layers() -> str:
    """Who may import whom, as the contract of import-linter holds it: a room imports those below its line only."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (ordered,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    lines = [re.sub(r"[()]", "", layer).replace(" | ", ", ") for layer in ordered]
    return "```text\n" + "\n".join(lines) + "\n```\n"


def redis_keys() -> str:
    """Every key of the layout: how it ends, its type, what it holds."""
    rows = []
    for keys in (Keys(), Keys().tenant("tenant")):
        for name, member in vars(type(keys)).items():
            told = getattr(member, "holds", None) or inspect.getdoc(member) or ""
            kind, colon, holds = told.partition(": ")
            if name.startswith("_") or not colon or kind not in ("String", "Hash", "List", "Set", "Sorted set"):
                continue
            key = getattr(keys, name)
            if callable(key):
                named = getattr(member, "named", None) or next(iter(inspect.signature(key).parameters))
                key = key({"partition": "0", "kind": "event"}.get(named, f"<{named}>"))
            shown = unquote(key.decode()).removeprefix(f"{Keys().root}:")
            rows.append((f"`{shown}`", kind, holds))
    return table(("key", "type", "holds"), sorted(rows))


def licences() -> str:
    return table(("licence", "packages"), ((name, ", ".join(of)) for name, of in bill.by_licence().items()))


PARTS: Mapping[str, Callable[[], str]] = {
    part.__name__: part
    for part in (
        topics, events, agent_events, artifact_types, sections, schemas, outcomes, effects, reasons, cases, limits,
        requests, metrics, settings, routes, problems, commands, rooms, layers, redis_keys,
        licences,
    )
}  # fmt: skip
