"""`hmx wait`: waits until everything published so far has passed the whole pipeline.

Enters: settings, and seconds. Leaves: nothing, once Redis is past a barrier in every partition of the log; else exit
code 1, with what is missing. Commands whose decision is an event wait here too.
"""

import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from hmx_pipeline.cli.console import OUT, AsJson, as_typed, fail, plain, print_json, saying
from hmx_pipeline.cli.home import outcomes
from hmx_pipeline.queries import pipeline_status
from hmx_pipeline.settings import Settings


def wait(
    timeout: Annotated[float, typer.Option(min=0.1, help="Longest wait, in seconds.")] = 120.0,
    as_json: AsJson = False,
) -> None:
    """Waits until all events published so far are in Redis or the dead letters, and shows their outcomes.

    Appends a barrier to the log. Exit code: 0 done, 1 not done in time; the message names what is missing.

    Example: hmx publish sessions.ndjson && hmx wait --timeout 60
    """
    from hmx_pipeline.runtime.barriers import LackingError
    from hmx_pipeline.store.atomic_blocks import StoreUnavailableError

    settings = Settings.load()
    started = time.monotonic()
    try:
        with saying("waiting", in_terminal=True) as say:
            wait_for_all(settings, timeout, say)
    except LackingError as error:
        fail(f"not finished after {timeout:.0f} s: {error}. `hmx status` shows which process is behind or down.")
    except StoreUnavailableError as error:
        fail(f"{error}. `hmx status` shows whether Redis runs.")
    seconds = round(time.monotonic() - started, 1)
    counted = counts(settings)
    if as_json:
        print_json({"seconds": seconds, **{name: counted[name] for name in ("outcomes", "rejections")}})
        return
    OUT.print(f"everything published is in Redis or among the dead letters ({seconds} s)")
    OUT.print(f"events: {plain(outcomes(counted))}", soft_wrap=True)
    if counted["rejections"]:
        OUT.print(as_typed("`hmx dlq` says why events were rejected, and what to do."), soft_wrap=True)


def counts(settings: Settings) -> dict[str, list[dict[str, Any]]]:
    """Returns what became of all events since the log began."""
    return pipeline_status.counted(pipeline_status.stages(settings, ()))


def until_in_memory(settings: Settings, what: str, timeout: float, on_progress: Callable[[str], None]) -> None:
    """Waits until memory shows what was appended to the log; exits with an error if it takes too long."""
    from hmx_pipeline.runtime.barriers import LackingError

    try:
        wait_for_all(settings, timeout, on_progress)
    except LackingError as error:
        fail(f"{what} is in the log, but not in memory after {timeout:.0f} s ({error}): run `hmx wait`")


def wait_for_all(
    settings: Settings, timeout: float = 120.0, on_progress: Callable[[str], None] = lambda _: None
) -> None:
    """Waits for both stages, then for Redis. Raises LackingError."""
    from hmx_pipeline.runtime import barriers
    from hmx_pipeline.store.fetch import Store

    barriers.wait_for_all(settings, Store.open(settings).positions, timeout, on_progress)
