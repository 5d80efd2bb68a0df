"""`hmx demo`: runs sample sessions through the whole pipeline on its own stack, and shows the results.

Everything is stopped at the end, also after Ctrl-C or a failure, unless `--keep` is given.
"""

import time
from typing import Annotated, Final

import typer
from rich.padding import Padding

from hmx_pipeline.cli.console import OUT, as_typed, fail, many, plain, saying
from hmx_pipeline.cli.own_stack import own_stack
from hmx_pipeline.cli.status import DEMO
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.settings import Settings

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
        with own_stack(DEMO, keep) as settings:
            _flow(settings)
            _show(settings)
            OUT.print(f"\n[dim]{time.monotonic() - started:.0f} s in total[/]")
            _where_next(settings, keep)
    except LackingError as error:
        fail(f"{error}\n`hmx demo --keep` keeps the logs in {DEMO}/logs.")


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
    """Tells what agents met, what memory learnt of it and what the next agent gets, from the topics and from Redis."""
    from hmx_pipeline.audit.pipeline_conservation import verify
    from hmx_pipeline.local.samples import QUESTION, TENANT
    from hmx_pipeline.queries.context_pack import make_pack
    from hmx_pipeline.retrieval.pack_request import PackRequest
    from hmx_pipeline.store.fetch import Store

    report = verify(settings)
    if not report.conserved:
        fail("records were lost or doubled. To see which, run `hmx demo --keep`, then `hmx verify`")
    counted = [f"{report.outcomes[o]} {o.replace('_', ' ')}" for o in Outcome if report.outcomes[o] and o != "control"]
    _say("What became of the records", f"{', '.join(counted)}. None was lost or doubled.")

    store = Store.open(settings)
    found, drafts = (
        [one for tenant in store.tenants() for one in store.all_artifacts(tenant, None, status)]
        for status in (Status.ACTIVE, Status.DRAFT)
    )
    pack = make_pack(store, PackRequest(query=QUESTION, tenant_id=TENANT, token_budget=BUDGET))
    best = next(entry for entry in pack.entries if entry.source_type == "artifact")
    learnt = next(one for one in found if one["artifact_id"] == best.source_id)
    met = learnt["content"]["recovery"][0]
    _say(
        "What agents met",
        f"In {met['sessions']} sessions `{met['step']}` failed with “{met['error']}”. {met['worked']} found a way out.",
    )
    _say(
        "What memory learnt",
        f"{many(len(found), 'artifact')} with enough evidence, {many(len(drafts), 'draft')} without. One of them:",
        f"{learnt['title']} ({learnt['observed_count']} runs, confidence {learnt['confidence']:.2f})",
    )
    fix = [line for line in best.content.splitlines() if line.startswith("If ")]
    _say("What the next agent gets when it asks", f"“{QUESTION}”", *fix)


def _say(heading: str, *lines: str) -> None:
    OUT.print(f"\n[bold]{heading}[/]")
    for line in lines:
        OUT.print(Padding(plain(line), (0, 0, 0, 2)))


def _where_next(settings: Settings, keep: bool) -> None:
    from hmx_pipeline.local.samples import QUESTION

    if not keep:
        OUT.print(as_typed("To look at it on the page: `make demo KEEP=1`, or `hmx demo --keep`."), soft_wrap=True)
        OUT.print(as_typed("To use your own events: `hmx up`, then docs/tutorial.md."), soft_wrap=True)
        return
    OUT.print(
        f"""
The stack keeps running, with the page at {settings.service_url}/
and the documentation at {settings.service_url}/docs/

    export HMX_STATE={DEMO}
    hmx open                                  # the page
    hmx pack "{QUESTION}" --tenant acme
    hmx artifacts --tenant acme               # all that was learnt
    hmx dlq                                   # what was rejected, and why
    hmx down                                  # stops it""",
        soft_wrap=True,
    )
