"""`python -m tests.verifier`: verifies a pipeline at rest and prints what it found. Exit code 1: something is wrong.

Addresses come from the environment as for every process of the pipeline (HMX_KAFKA_BOOTSTRAP, HMX_REDIS_URL, …), else
from the stack that `hmx up` runs here.
"""

import sys
import time

from rich.console import Console
from rich.table import Table

from hmx_pipeline.settings import Settings
from tests.verifier.check import check
from tests.verifier.faults import Report

SHOWN = 50
"""Faults."""


def main() -> int:
    settings = Settings.load()
    out, err = Console(), Console(stderr=True)
    started = time.monotonic()
    with err.status("verifying") as line:
        report = check(
            settings.require_kafka(),
            settings.topic_prefix,
            settings.redis_url,
            settings.require_control_key(),
            strict=settings.ordering == "strict",
            window_ms=settings.window_ms,
            progress=line.update if err.is_terminal else lambda _: None,
        )
    show(out, report, time.monotonic() - started)
    return 0 if report.clean else 1


def show(out: Console, report: Report, seconds: float) -> None:
    table = Table("outcome", "records", title=f"{report.records} records of the events topic, {seconds:.1f} s")
    for outcome, count in sorted(report.outcomes.items()):
        table.add_row(outcome, str(count))
    out.print(table)
    out.print("compared: " + ", ".join(f"{count} {what}" for what, count in sorted(report.compared.items())))
    for fault in report.faults[:SHOWN]:
        out.print(str(fault), markup=False, highlight=False)
    if len(report.faults) > SHOWN:
        out.print(f"… and {len(report.faults) - SHOWN} more")
    out.print(f"lost {report.lost}, doubled {report.doubled}, differing {report.differing}")


if __name__ == "__main__":
    sys.exit(main())
