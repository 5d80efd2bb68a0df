"""`hmx demo`: runs sample sessions through the whole pipeline on its own stack, and shows the results.

Everything is stopped at the end, also after Ctrl-C or a failure, unless `--keep` is given.
"""

import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Final

import typer

from hmx_pipeline.cli.console import OUT, fail, saying, table
from hmx_pipeline.cli.own_stack import own_stack
from hmx_pipeline.contracts.artifact import Status
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.contracts.rejections import Reason
from hmx_pipeline.settings import Settings

KEPT: Final = Path(".hmx/demo")
BUDGET: Final = 600


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack running afterwards.")] = False,
) -> None:
    """Runs sample sessions through the whole pipeline and shows what it learns from them.

    Starts Kafka, Redis and the pipeline on free ports, and stops them at the end.

    Exit code: 0 success, 1 something failed, 130 interrupted. Example: hmx demo --keep
    """
    from hmx_pipeline.runtime.barriers import LackingError

    started = time.monotonic()
    try:
        with own_stack(KEPT, keep) as settings:
            _flow(settings)
            _show(settings)
            OUT.print(f"\n[dim]{time.monotonic() - started:.0f} s in total[/]")
            _where_next(settings, keep)
    except LackingError as error:
        fail(f"{error}\n`hmx demo --keep` keeps the logs in {KEPT}/logs.")


def _flow(settings: Settings) -> None:
    """Publishes the samples and waits until all are in Redis or rejected."""
    from hmx_pipeline.cli.wait import wait_for_all
    from hmx_pipeline.kafka.publisher import publish
    from hmx_pipeline.local.samples import EXPECTED, sample_events

    OUT.print(f"[bold]{len(EXPECTED.records)} records of {EXPECTED.sessions} sessions pass through Kafka[/]")
    with saying("publishing") as say:
        publish(sample_events(), settings)
        wait_for_all(settings, on_progress=say)


def _show(settings: Settings) -> None:
    """Shows the results, read from the topics and from Redis."""
    from hmx_pipeline.audit.pipeline_conservation import verify
    from hmx_pipeline.cli.memory import show_artifact, show_artifacts, show_pack
    from hmx_pipeline.local.samples import QUESTION, TENANT
    from hmx_pipeline.queries.context_pack import make_pack
    from hmx_pipeline.retrieval.pack_request import PackRequest
    from hmx_pipeline.store.fetch import Store

    report = verify(settings)
    rows = [(o.value, report.outcomes[o], o.meaning) for o in Outcome if report.outcomes[o]]
    _heading("Outcome of every record")
    OUT.print(table("", ("outcome", "records", "meaning"), rows))
    if not report.conserved:
        fail("records were lost or doubled. To see which, run `hmx demo --keep`, then `hmx verify`")
    advice = {reason.value: reason.advice for reason in Reason}
    rejected = [(reason, count, advice[reason]) for reason, count in report.rejections.most_common()]
    _heading("Rejected records, and what their producer can do")
    OUT.print(table("", ("reason", "records", "advice"), rejected))

    store = Store.open(settings)
    _heading("What was learnt")
    for tenant in store.tenants():
        statuses = (Status.ACTIVE, Status.DRAFT)
        show_artifacts([a for status in statuses for a in store.all_artifacts(tenant, None, status)], tenant)
        OUT.print()
    made = make_pack(store, PackRequest(query=QUESTION, tenant_id=TENANT, token_budget=BUDGET))
    answering = next((entry.source_id for entry in made.entries if entry.source_type == "artifact"), None)
    found = answering and store.get_artifact(TENANT, answering)
    if found:
        _heading("One artifact, in full")
        show_artifact(found)
    _heading("A context pack: what an agent receives")
    show_pack(made.model_copy(update={"dropped_entries": None}))
    reasons = Counter(str(dropped.drop_reason) for dropped in made.dropped_entries or ())
    dropped = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    OUT.print(f"\n[dim]dropped, with reasons in the pack: {dropped or 'nothing'}[/]")


def _heading(text: str) -> None:
    OUT.print()
    OUT.rule(f"[bold]{text}[/]", align="left", style="dim")


def _where_next(settings: Settings, keep: bool) -> None:
    if not keep:
        OUT.print("To keep the stack running: `hmx demo --keep`. To use your own events: `hmx up`.")
        return
    OUT.print(
        f"""
The stack keeps running. The service answers at {settings.service_url} (pages at / and /docs/).

    export HMX_STATE={KEPT}
    hmx artifacts --tenant acme
    hmx pack "Why do tests fail after a refactoring?" --tenant acme
    hmx verify
    hmx down""",
        soft_wrap=True,
    )
