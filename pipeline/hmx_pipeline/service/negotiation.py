"""Version negotiation: the HTTP header `X-HMX-Version`, or the WebSocket subprotocol (HMX-V).

Enters: a request's header, by the dependency `NEGOTIATED` of all native routes. Leaves: nothing, or a WebSocket's
subprotocol. Raises ProblemError for another major version. Without either, HMX-1.0 applies. Every native answer names
its version.
"""

from typing import Annotated, Final

from fastapi import Depends, Header, WebSocket

from hmx_pipeline.contracts.versions import HMX_VERSION, SUPPORTED, spoken
from hmx_pipeline.service.problems import ProblemError, ProblemKind

HEADER: Final = "X-HMX-Version"
SUBPROTOCOL: Final = HMX_VERSION.lower()


async def _understood(
    version: Annotated[
        str | None, Header(alias=HEADER, description="Version of the client", examples=[HMX_VERSION])
    ] = None,
) -> None:
    if version is not None and spoken([version]) is None:
        raise _refused()


NEGOTIATED: Final = Depends(_understood)


def subprotocol(socket: WebSocket) -> str | None:
    """Returns the subprotocol to answer with; None if none was offered."""
    offered: list[str] = socket.scope["subprotocols"]
    chosen = spoken(offered)
    if offered and chosen is None:
        raise _refused()
    return chosen


def _refused() -> ProblemError:
    return ProblemError(ProblemKind.UNSUPPORTED_VERSION, f"supported: {SUPPORTED}", supported=[SUPPORTED])
