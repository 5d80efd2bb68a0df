"""What a hook of Claude Code waits for: asked of a real service, one hook after the other, with a memory behind it.

A prompt is appended to Kafka too. Asked with a long deadline, so that a late answer is seen and not cut off. Beside the
milliseconds stand those of a hook that neither tells nor asks, sent in turns with it, and the CPU time of the service.
No two hooks ask the same: what was asked before is found sooner.
"""

import http.client
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from tests.bench import memories
from tests.bench.kit import Bench, quantile
from tests.bench.packs import ARTIFACTS, PAST, SMALL, memory_of
from tests.bench.report import Bar, Line
from tests.support.pipeline import Pipeline

ASKED: Final = 1_000
WARM: Final = 1_000
HEADERS: Final = {"X-HMX-Tenant": "small", "Content-Type": "application/json", "X-HMX-Deadline-Ms": "30000"}
LIMITS_MS: Final = {"PreToolUse": 30, "UserPromptSubmit": 150, "SessionStart": 300}


def doors(bench: Bench) -> list[Line]:
    with memory_of(bench) as (settings, memory):
        memories.fill(memory, "small", SMALL, ARTIFACTS)
        memories.past(memory, "small", PAST)
        pipeline = Pipeline(settings, bench.folder)
        try:
            pipeline.start("service")
            asked = partial(_asked, settings.service_port, pipeline.processes["service"].pid)
            asked("UserPromptSubmit", bench.round_count * len(LIMITS_MS), WARM)
            took = [
                {hook: asked(hook, number * len(LIMITS_MS) + place, ASKED) for place, hook in enumerate(LIMITS_MS)}
                for number in bench.rounds()
            ]
        finally:
            pipeline.stop_all()
    return [
        line
        for hook, limit in LIMITS_MS.items()
        for line in (
            _line(f"hook {hook}, {SMALL:,} memories, p50", 50, [one[hook] for one in took]),
            _line(f"  {hook}, p99", 99, [one[hook] for one in took], Bar("≤", limit, ratio=False)),
            Line(f"  {hook}, p99 of the service's CPU", "ms", [quantile(one[hook].cpu, 99) for one in took]),
        )
    ]


def _line(name: str, share: int, rounds: Sequence["Took"], bar: Bar | None = None) -> Line:
    ours, empty = ([quantile(each, share) for each in took] for took in zip(*(one[:2] for one in rounds), strict=True))
    return Line(name, "ms", ours, "an empty hook", empty, bar)


class Took(NamedTuple):
    """Milliseconds of each hook."""

    waited: list[float]
    empty: list[float]
    """Of the empty hook after it."""
    cpu: list[float]


def _asked(port: int, pid: int, hook: str, seed: int, count: int) -> Took:
    hooks = [_fields(hook, said, f"{seed}-{n}") for n, said in enumerate(memories.queries(count, SMALL, seed))]
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as service:
        # Before a call hardly anything is told: what is found is then left out, which takes as long.
        return _timed(service, pid, hooks, 0 if hook == "PreToolUse" else count // 10)


def _timed(service: http.client.HTTPConnection, pid: int, hooks: Sequence[dict[str, Any]], least: int) -> Took:
    """`least`: of how many an answer must say something."""
    took, answered = Took([], [], []), 0
    for fields in hooks:
        spent = _cpu_ms(pid)
        ms, said = _posted(service, fields)
        took.waited.append(ms)
        took.cpu.append(_cpu_ms(pid) - spent)
        took.empty.append(_posted(service, {**fields, "hook_event_name": "Notification"})[0])
        answered += said != b"{}"
    assert answered >= least, "memory knows nothing of what was asked: nothing was measured"
    return took


def _posted(service: http.client.HTTPConnection, fields: dict[str, Any]) -> tuple[float, bytes]:
    body = orjson.dumps(fields)
    started = time.perf_counter()
    service.request("POST", "/v1/hooks/claude-code", body, HEADERS)
    answer = service.getresponse()
    said = answer.read()
    took = (time.perf_counter() - started) * 1000
    assert answer.status == 200, said
    assert answer.getheader("X-HMX-Appended") in ("yes", "none"), answer.headers
    return took, said


def _cpu_ms(pid: int) -> float:
    """Of all threads of a process; those that end meanwhile are none of a request's."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in threads) / 1e6


def _fields(hook: str, question: str, name: str) -> dict[str, Any]:
    words = question.split()
    match hook:
        case "PreToolUse":
            given = {"tool_name": "Bash", "tool_input": {"command": question}, "tool_use_id": f"toolu-{name}"}
        case "UserPromptSubmit":
            given = {"prompt": question, "prompt_id": name}
        case _:
            given = {"source": "startup"}
    return {"hook_event_name": hook, "session_id": f"hooks-{name}", "cwd": f"/home/dev/{words[-1]}", **given}
