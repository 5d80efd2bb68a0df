"""Which version of HMX is spoken: HTTP says so by a header, a WebSocket by its subprotocol (HMX-V).

Whoever names none speaks HMX-1.0. Fails with ProblemError for another major; every native answer tells its version.
"""

from typing import Annotated, Final

from fastapi import Depends, Header, WebSocket

from pipeline.contracts.versions import HMX_VERSION, SUPPORTED, spoken
from pipeline.service.problems import Kind, ProblemError

HEADER: Final = "X-HMX-Version"
SUBPROTOCOL: Final = HMX_VERSION.lower()


async def _understood(
    version: Annotated[
        str | None, Header(alias=HEADER, description="What whoever asks speaks", examples=[HMX_VERSION])
    ] = None,
) -> None:
    if version is not None and spoken([version]) is None:
        raise _refused()


NEGOTIATED: Final = Depends(_understood)


def subprotocol(socket: WebSocket) -> str | None:
    """The one to answer with; None where none was offered."""
    offered: list[str] = socket.scope["subprotocols"]
    chosen = spoken(offered)
    if offered and chosen is None:
        raise _refused()
    return chosen


def _refused() -> ProblemError:
    return ProblemError(Kind.UNSUPPORTED_VERSION, f"supported: {SUPPORTED}", supported=[SUPPORTED])
