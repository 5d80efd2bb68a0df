"""One run: traffic and faults from a seed, then rest, then the verdict.

Enters: a `Plan`. Leaves: a `Result`; the logs of all processes in the run's folder, and beside it `crash-SEED.json`.
Fails: HarnessError, LackingError where something does not come back; everything is stopped then.
"""

import json
import math
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.worker.runner import EXIT_FENCED
from tests.harness.faults import CLOCKS, KINDS, SHIFTS_S, Crash, Row, schedule
from tests.harness.growth import grow
from tests.harness.operators import Operators
from tests.harness.producer import Traffic
from tests.harness.recovery import Positions
from tests.harness.site import Site
from tests.harness.verdict import SHOWN, Verdict, judge

SLOWEST, FASTEST = 100.0, 2_000.0
CALM_S = (0.5, 2.0)
BEHIND_S = 10.0
"""A machine whose workers are further behind than this is told fewer events a second: recoveries are measured, not how
many it can take."""
REST_S = 300.0 + max(SHIFTS_S)
"""What was appended behind a gap while a broker's clock was ahead waits until append times have come as far."""

Say = Callable[[str], None]
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Plan:
    seed: int
    events: int
    faults: int
    folder: Path
    only: str = ""
    """Kinds of faults, a regular expression."""
    guarded: bool = False
    """On a Kafka that lets in only who may."""
    grown: bool = False
    """Whether the log grows to more partitions at the end."""
    fault_s: float = 12.0
    """What a fault is expected to take; the events are spread over all of them."""
    slowest: float = SLOWEST
    """Events a second at least."""
    partitions: int | None = None
    """Of each topic; None: as the topic files say."""
    forks: bool = False
    """Whether processes start without their imports."""

    def rate(self, sent: int, faults: int) -> float:
        """Events a second, so that they last as long as so many faults."""
        return min(FASTEST, max(self.slowest, (self.events - sent) / (faults * self.fault_s + 1.0)))


@dataclass
class Result:
    plan: Plan
    rows: list[Row] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Verdict)
    sent: int = 0
    refused: int = 0
    exits: Counter[tuple[str, int]] = field(default_factory=Counter)
    left_out: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "seed": self.plan.seed,
            "events": self.plan.events,
            "kinds": self.plan.only or "all",
            "sent": self.sent,
            "not_acknowledged": self.refused,
            "faults": [_finite(asdict(row)) for row in self.rows],
            "left_out": self.left_out,
            "exits": {f"{name}: {code}": count for (name, code), count in sorted(self.exits.items())},
            "seconds": self.seconds,
            "verdict": asdict(self.verdict),
        }


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    for name in ("hit", "others"):
        row[name] = [round(seconds, 2) if math.isfinite(seconds) else None for seconds in row[name]]
    return row


def run(plan: Plan, say: Say, progress: Progress = lambda _: None) -> Result:
    began = time.monotonic()
    site = Site(plan.folder, say, guarded=plan.guarded, partitions=plan.partitions, forks=plan.forks)
    kinds = schedule(plan.seed, plan.faults, plan.only, clocks=site.clocks.available)
    result = Result(plan, [Row(number, kind) for number, kind in enumerate(kinds, start=1)])
    result.left_out = [] if site.clocks.available else sorted(CLOCKS)
    _write(result)
    say(f"planned: {', '.join(kinds)}")
    try:
        site.start()
        result.seconds["start"] = round(time.monotonic() - began, 1)
        _drive(site, result, say, progress)
    finally:
        site.stop()
        result.exits = site.fleet.exits
        result.seconds["whole"] = round(time.monotonic() - began, 1)
        _write(result)
        for data in ("kafka", "redis"):
            shutil.rmtree(plan.folder / data, ignore_errors=True)
    return result


def _drive(site: Site, result: Result, say: Say, progress: Progress) -> None:
    plan, began = result.plan, time.monotonic()
    traffic = Traffic(site, plan.seed, plan.events, plan.rate(0, plan.faults), progress)
    positions = Positions(site.settings, site.partitions)
    traffic.acknowledged.seen = positions.sent
    operators = Operators(site, plan.seed, traffic.acknowledged)
    positions.start()
    traffic.start()
    operators.start()
    try:
        _strike_all(Crash(site, traffic, positions), result, say)
        operators.close()
        traffic.rate = FASTEST
        traffic.close()
    finally:
        traffic.abandon()
        positions.close()
        result.sent, result.refused = traffic.sent, traffic.acknowledged.refused
    result.seconds["faults"] = round(time.monotonic() - began, 1)
    say("traffic has ended; waiting until everything has come out")
    wait_for_all(site.settings, REST_S)
    operators.once_more()
    wait_for_all(site.settings, REST_S)
    result.seconds["rest"] = round(time.monotonic() - began, 1)
    say("verifying")
    result.verdict = judge(site, traffic.acknowledged, operators, stays=plan.grown)
    result.seconds["verdict"] = round(time.monotonic() - began, 1)
    if plan.grown:
        say(f"growing to {2 * site.partitions} partitions")
        faults = grow(site, random.Random(f"{plan.seed}/grown"))
        result.verdict.grown = len(faults)
        result.verdict.details += faults[:SHOWN]
        result.seconds["grown"] = round(time.monotonic() - began, 1)
    result.verdict.fallen = sum(count for (_, code), count in site.fleet.exits.items() if code != EXIT_FENCED)


def _strike_all(crash: Crash, result: Result, say: Say) -> None:
    began = time.monotonic()
    for row in result.rows:
        dice = random.Random(f"{result.plan.seed}/{row.number}")
        slower = min(1.0, BEHIND_S / crash.undisturbed())
        rate = result.plan.rate(crash.traffic.sent, result.plan.faults - row.number + 1)
        crash.traffic.rate = row.rate = round(max(result.plan.slowest, slower * rate), 1)
        time.sleep(dice.uniform(*CALM_S))
        row.at_s = round(time.monotonic() - began, 1)
        crash.row = row
        KINDS[row.kind](crash, dice)
        say(f"{row.number:3} {row.kind:34} {row.detail:26} hit {_most(row.hit)}, others {_most(row.others)}")
    crash.undisturbed()


def _most(seconds: list[float]) -> str:
    return f"{max(seconds):5.1f} s" if seconds else "    -  "


def _write(result: Result) -> None:
    path = result.plan.folder.with_suffix(".json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result.as_json(), indent=2) + "\n")
