"""`hmx` without a command: where things stand, and the next useful command. Also what `hmx wait` says of all events.

Enters: settings; counts and positions, from the service or else from Kafka and Redis. Leaves: lines of text. `outcomes`
is also what `hmx publish --wait` says of its own events.
"""

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import Any, Final

from hmx_pipeline.cli.console import OUT, as_typed, many, plain
from hmx_pipeline.cli.service_client import told
from hmx_pipeline.cli.status import positions
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.local import state as local
from hmx_pipeline.queries import pipeline_status
from hmx_pipeline.settings import Settings

Json = dict[str, Any]
Next = tuple[str, str]
_START: Final[list[Next]] = [
    ("hmx demo", "shows everything on sample sessions, in a minute"),
    ("hmx up", "starts Kafka, Redis and the pipeline here"),
]
_HELP: Final[Next] = ("hmx --help", "lists all commands")


def home() -> None:
    """Shows where things stand and what to do next. Never fails because a part is down: it says which."""
    settings = Settings.load()
    running = local.status(settings.state)
    if running is None and not (settings.kafka_bootstrap or settings.service_url):
        OUT.print("Nothing runs in this folder.\n")
        return _advise([*_START, _HELP])
    url = running["service_url"] if running is not None else settings.service_url
    stages, memory = positions(settings, {})
    counted = stages if isinstance(stages, str) else pipeline_status.counted(stages)
    tenants = told(settings, "tenants", "tenants")
    if isinstance(tenants, str) and settings.redis_url:
        tenants = pipeline_status.explained(lambda: pipeline_status.tenants(settings))
    components = running["components"] if running is not None else {}
    down = [name for name, it in components.items() if it["state"] not in ("ready", "done")]
    lines = {
        "not ready": ", ".join(down),
        "page": f"{url}/" if url else "",
        "events": counted if isinstance(counted, str) else outcomes(counted),
        "memory": memory if isinstance(memory, str) else _behind(memory),
        "tenants": tenants if isinstance(tenants, str) else ", ".join(tenants["tenants"][:5]),
    }
    for name, said in lines.items():
        if said:
            OUT.print(f"[dim]{name:<10}[/] {plain(said)}")
    OUT.print()
    unwell = bool(down) or any(isinstance(part, str) for part in (counted, memory))
    return _advise([*_next(unwell, counted, tenants), _HELP])


def since(before: Mapping[str, Sequence[Json]], now: Mapping[str, Sequence[Json]]) -> dict[str, list[Json]]:
    """Returns what was counted in between."""
    was = {(kind, row["name"]): row["count"] for kind, rows in before.items() for row in rows}
    left = {
        kind: [{**row, "count": row["count"] - was.get((kind, row["name"]), 0)} for row in rows]
        for kind, rows in now.items()
    }
    return {kind: [row for row in rows if row["count"]] for kind, rows in left.items()}


def outcomes(counted: Mapping[str, Sequence[Json]], when: str = "so far") -> str:
    """Tells what became of the events, by default since the log began: a count for each outcome, rejections with
    reasons."""
    met = {row["name"]: row["count"] for row in counted["outcomes"] if row["count"]}
    met.pop(Outcome.CONTROL, None)
    why = ", ".join(f"{row['count']:,} {row['name']}" for row in counted["rejections"])
    parts = [
        f"{count:,} {name.replace('_', ' ')}" + (f" ({why})" if name == Outcome.REJECTED and why else "")
        for name, count in met.items()
    ]
    return f"{sum(met.values()):,} {when}: {', '.join(parts)}" if met else f"none {when}"


def _behind(memory: Mapping[str, Json]) -> str:
    lag = sum(at["lag"] for at in memory.values())
    if not lag:
        return "up to date"
    return f"{many(lag, 'record')} behind, {max(at['lag_seconds'] for at in memory.values()):.1f} s"


def _next(unwell: bool, counted: Json | str, tenants: Json | str) -> Iterator[Next]:
    if unwell:
        yield "hmx status", "shows what is down or behind"
    if isinstance(counted, str) or isinstance(tenants, str):
        return
    rejected = sum(row["count"] for row in counted["rejections"])
    if rejected:
        yield "hmx dlq", f"says why {many(rejected, 'event was', 'events were')} rejected"
    if tenants["tenants"]:
        yield f'hmx pack "what now?" --tenant {quote(tenants["tenants"][0])}', "asks memory"
        yield "hmx open", "shows the page"
    else:
        yield "hmx publish FILE", "sends events, one JSON object per line"


def _advise(commands: list[Next]) -> None:
    typed = [(as_typed(command), use) for command, use in commands]
    width = max(len(command) for command, _ in typed)
    for command, use in typed:
        OUT.print(f"  [bold]{plain(command):<{width}}[/]  [dim]{plain(use)}[/]", soft_wrap=True)
