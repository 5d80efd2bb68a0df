"""`hmx status`: processes of the local stack, consumer lag of the stages, and positions in Redis.

Enters: settings; what the service knows, or else Kafka, Redis and the processes themselves. Leaves: tables or JSON;
exit code 1 if something is not ready or too far behind.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import typer

from hmx_pipeline.cli.console import ERR, OUT, AsJson, as_typed, fail, plain, print_json, table
from hmx_pipeline.cli.service_client import told
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.local import state as local
from hmx_pipeline.observe.process_reader import figures
from hmx_pipeline.queries import pipeline_status
from hmx_pipeline.queries.pipeline_status import Json
from hmx_pipeline.settings import Settings, without_password

DEMO: Final = Path(".hmx/demo")
"""Where `hmx demo --keep` leaves its stack."""
OWNER: Final = 18


def status(as_json: AsJson = False) -> None:
    """Shows processes, every partition's position and lag in both stages, counters, and the lag of Redis.

    Lag is in records, and in seconds as the age of the oldest unread record. Without a stack in this folder, it shows
    what HMX_SERVICE_URL, or HMX_KAFKA_BOOTSTRAP and HMX_REDIS_URL, and HMX_PROCESSES point to.

    Exit code: 0 all healthy, 1 no stack, or something is not ready or too far behind. Example: hmx status --json
    """
    settings = Settings.load()
    running = local.status(settings.state)
    if running is not None:
        running["redis_url"] = without_password(running["redis_url"])
    if running is None and not (settings.kafka_bootstrap or settings.service_url):
        fail(no_stack(settings))
    health = running.get("health", {}) if running is not None else settings.addresses()
    said = pipeline_status.processes(health)
    stages, memory = positions(settings, health)
    if running is None:
        if isinstance(stages, str):
            fail(f"{no_stack(settings)} ({stages})")
        ERR.print(f"[dim]{as_typed(no_stack(settings))}; showing what runs elsewhere[/]")
    if as_json:
        lag = memory if isinstance(memory, str) else {where: at["lag"] for where, at in memory.items()}
        print_json({**(running or {}), "health": said, "stages": stages, "redis": memory, "redis_lag": lag})
    else:
        _show(running, said, stages, memory)
    if not _well(running, said, stages, memory, settings.ready_lag_s):
        raise typer.Exit(1)


def positions(settings: Settings, health: Mapping[str, str]) -> tuple[Json | str, Json | str]:
    """Returns those of both stages and of Redis, or why they are not known. Without the service, which has them at
    hand, they are read from Kafka and Redis: status is asked most when parts are down."""
    found = told(settings, "overview", "stages", "memory", "problems")
    if not isinstance(found, str):
        problems = iter(found["problems"])
        said = [next(problems, "not known") if found[name] is None else found[name] for name in ("stages", "memory")]
        return said[0], said[1]
    if settings.service_url and not settings.kafka_bootstrap:
        return found, found
    return (
        pipeline_status.explained(lambda: pipeline_status.stages(settings, figures(health.values()))),
        pipeline_status.explained(lambda: pipeline_status.memory(settings)),
    )


def no_stack(settings: Settings) -> str:
    """Says that none runs in the folder of the settings, and how to come to one."""
    if local.status(DEMO) is not None:
        return f"no stack runs in {settings.state}; that of the demo runs: export HMX_STATE={DEMO}"
    return f"no stack runs in {settings.state}: start one with `hmx up`"


def components(running: Json, said: Mapping[str, Json]) -> Any:
    """Returns a table of the local stack's processes."""
    addresses = {
        "kafka": running["kafka_bootstrap"],
        "redis": running["redis_url"],
        **running.get("health", {}),
    }
    rows = [
        (name, _state(it["state"], said.get(name)), str(it["pid"] or ""), _megabytes(it["pid"]), it["restarts"],
         addresses.get(name.partition("-")[0], ""))
        for name, it in running["components"].items()
    ]  # fmt: skip
    return table("Stack", ("component", "state", "pid", "MB", "restarts", "address"), rows)


def _megabytes(pid: int | None) -> str:
    """Returns the memory that a process holds; empty where the system does not tell."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return ""
    return f"{pages * os.sysconf('SC_PAGE_SIZE') // MB:,}"


def _state(state: str, said: Json | None) -> str:
    """Returns the process's own readiness if known; the supervisor only knows that it runs."""
    return "not ready" if state == "ready" and said is not None and not said["ready"] else state


def _well(running: Json | None, said: Mapping[str, Json], stages: Json | str, memory: Json | str, most: int) -> bool:
    if isinstance(stages, str) or isinstance(memory, str):
        return False
    partitions = [row for stage in stages.values() for row in stage["partitions"]]
    return (
        (running is None or running["ready"])
        and all(each["ready"] for each in said.values())
        and all(row["owner"] and row["lag_seconds"] <= most and not row["set_aside"] for row in partitions)
        and all(at["lag_seconds"] <= most for at in memory.values())
    )


def _show(running: Json | None, said: Mapping[str, Json], stages: Json | str, memory: Json | str) -> None:
    if running is not None:
        OUT.print(components(running, said))
    for name, each in said.items():
        if not each["ready"]:
            OUT.print(f"[bold red]{name} is not ready[/]: {plain(each['said'])}")
    if isinstance(stages, str):
        OUT.print(f"\n[bold]Kafka[/]  {plain(stages)}")
    else:
        for name, stage in stages.items():
            OUT.print()
            _show_stage(name, stage)
    OUT.print()
    if isinstance(memory, str):
        OUT.print(f"[bold]Redis[/]  {plain(memory)}")
    else:
        _show_memory(memory)


def _show_stage(name: str, stage: Json) -> None:
    columns = ("partition", "position", "lag", "seconds", "waiting", "state", "owner")
    rows = [
        (str(row["partition"]), row["position"], row["lag"], row["lag_seconds"], _known(row["waiting"]),
         "set aside" if row["set_aside"] else _known(row["state"]), (row["owner"] or "nobody")[-OWNER:])
        for row in stage["partitions"]
    ]  # fmt: skip
    rows.append(("all", *_sums(stage["partitions"])))
    OUT.print(table(f"Stage {name}", columns, rows))
    OUT.print(f"[dim]counted[/]  {_counted(stage['counts'])}")


def _sums(rows: Sequence[Json]) -> Sequence[Any]:
    waiting, state = ([row[name] for row in rows if row[name] is not None] for name in ("waiting", "state"))
    return (
        sum(row["position"] for row in rows),
        sum(row["lag"] for row in rows),
        max((row["lag_seconds"] for row in rows), default=0.0),
        _known(sum(waiting) if waiting else None),
        _known(sum(state) if state else None),
        "",
    )


def _known(value: int | None) -> int | str:
    """Returns a number that only a worker knows, or "-"."""
    return value if value is not None else "-"


def _counted(counts: Mapping[str, int]) -> str:
    """Formats counters, each followed by its reasons."""
    said = []
    for name, count in counts.items():
        reasons = [f"{n:,} {of.partition('.')[2]}" for of, n in counts.items() if of.startswith(f"{name}.")]
        if "." not in name or name.partition(".")[0] not in counts:
            said.append(f"{count:,} {name}" + (f" ({', '.join(reasons)})" if reasons else ""))
    return plain(", ".join(said)) or "nothing yet"


def _show_memory(memory: Json) -> None:
    topics: dict[str, list[Json]] = {}
    for where, at in memory.items():
        topics.setdefault(where.rpartition("/")[0], []).append(at)
    rows = [
        (topic, len(parts), *(sum(at[name] for at in parts) for name in ("position", "lag")),
         max(at["lag_seconds"] for at in parts))
        for topic, parts in topics.items()
    ]  # fmt: skip
    OUT.print(table("Redis", ("topic", "partitions", "position", "lag", "seconds"), rows))
