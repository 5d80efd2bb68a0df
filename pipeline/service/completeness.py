"""Every answer out of memory says whether memory is complete: in the header `X-HMX-Memory-Complete`, if nowhere else.

Enters: a request. Leaves: the header, of what was known at most a second ago; a pack's own is as of the pack. Nothing
fails: where Redis does not answer there is no header, and the route says so itself.
"""

from typing import Final

from fastapi import Depends, Request

from pipeline.retrieval.completeness import Completeness
from pipeline.service.kept import Kept
from pipeline.store.blocks import StoreUnavailableError
from pipeline.store.fetch import Store

MEMORY_COMPLETE: Final = "X-HMX-Memory-Complete"
COMPLETE: Final = "memory_complete"
"""Where a request's scope holds it."""
KEPT_S: Final = 1.0


class Completing(Kept[Completeness | None]):
    """Whether memory is complete; None where Redis does not answer."""

    def __init__(self, store: Store) -> None:
        super().__init__(lambda: _asked(store), KEPT_S)


def _asked(store: Store) -> Completeness | None:
    try:
        return store.completeness()
    except StoreUnavailableError:
        return None


async def reported(request: Request) -> None:
    known: Completing = request.app.state.completing
    whole = await known.get()
    request.scope[COMPLETE] = None if whole is None else whole.complete


REPORTED: Final = Depends(reported)
"""Among the dependencies of routes that read memory."""


def anew(request: Request) -> Completeness:
    """As it is now, for an answer that holds nothing. Blocks. Raises StoreUnavailableError."""
    store: Store = request.app.state.store
    found = store.completeness()
    request.scope[COMPLETE] = found.complete
    return found
