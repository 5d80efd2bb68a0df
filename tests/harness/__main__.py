"""`make crash` (SEED=n EVENTS=n FAULTS=n, KINDS=regular expression): a run with its progress, then a table.

SECURED=1: on a Kafka with TLS, where each process logs in and has its own rights only.

Exit code: 0 nothing lost, doubled or differing, and nothing left of what was erased or a policy takes; 1 something is,
or does not come back.
"""

import os
import signal
import sys
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from hmx_pipeline.kafka.topic_files import TopicsError
from hmx_pipeline.local.process import StackError
from hmx_pipeline.runtime.barriers import LackingError
from tests.harness.fleet import HarnessError
from tests.harness.run import Plan, Result, run

HIT_S, OTHERS_S = 15.0, 2.0
OUT = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    signal.signal(signal.SIGTERM, interrupted)
    signal.signal(signal.SIGINT, interrupted)
    seed, events, faults = (int(os.environ.get(name) or default) for name, default in DEFAULTS.items())
    plan = Plan(
        seed,
        events,
        faults,
        Path("build") / f"crash-{seed}",
        os.environ.get("KINDS", ""),
        bool(secured := os.environ.get("SECURED")),
        grown=not secured,  # an operator's rights, which no process has
    )
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=OUT, disable=not OUT.is_terminal) as bar:
            task = bar.add_task(f"seed {seed}, events", total=events)
            result = run(plan, OUT.print, lambda sent: bar.update(task, completed=sent))
    except (HarnessError, LackingError, StackError, TopicsError) as error:
        OUT.print(f"failed: {error}\nlogs: {plan.folder}")
        return 1
    except KeyboardInterrupt:
        OUT.print("interrupted; everything is stopped")
        return 130
    show(result)
    return 0 if result.verdict.clean else 1


DEFAULTS = {"SEED": "1", "EVENTS": "300000", "FAULTS": "30"}


def show(result: Result) -> None:
    table = Table("fault", "times", f"hit: median, max (≤ {HIT_S:.0f} s)", f"others: median, max (≤ {OTHERS_S:.0f} s)")
    for kind in sorted({row.kind for row in result.rows}):
        rows = [row for row in result.rows if row.kind == kind]
        hit = [seconds for row in rows for seconds in row.hit]
        others = [seconds for row in rows for seconds in row.others]
        table.add_row(kind, str(len(rows)), _spread(hit, HIT_S), _spread(others, OTHERS_S))
    for kind in result.left_out:
        table.add_row(kind, "-", "left out: no C compiler", "")
    OUT.print(table)
    verdict = result.verdict
    OUT.print(
        f"{result.sent} events sent, {result.refused} not acknowledged; {verdict.records} records: {verdict.outcomes}"
    )
    for (name, code), count in sorted(result.exits.items()):
        OUT.print(f"{name} ended by itself with {code}: {count} times")
    ruled = ", ".join(f"{count} {verb}" for verb, count in sorted(verdict.ruled.items()))
    OUT.print(f"{verdict.erased} erased, {verdict.receipts} with a receipt at once; rulings: {ruled or 'none'}")
    OUT.print(f"{verdict.policies} tenants forgot by a policy")
    for detail in verdict.details[:20]:
        OUT.print(detail, markup=False)
    OUT.print(
        f"lost {verdict.lost}, doubled {verdict.doubled}, differing {verdict.differing}, acknowledged and missing"
        f" {verdict.missing}, erased and still there {verdict.leaked}, retained beyond policy {verdict.retained},"
        f" wrong after growing {verdict.grown}, fallen by themselves {verdict.fallen};"
        f" seconds: {result.seconds}"
    )
    if not verdict.clean:
        OUT.print(f"logs: {result.plan.folder}; again: make crash SEED={result.plan.seed} FAULTS={result.plan.faults}")


def _spread(seconds: list[float], target: float) -> str:
    if not seconds:
        return "-"
    return f"{median(seconds):.1f}, {max(seconds):.1f}" + (" (!)" if max(seconds) > target else "")


if __name__ == "__main__":
    sys.exit(main())
