"""Reading a request's body: its media type, and its bytes up to a bound."""

from collections.abc import Sequence

from fastapi import Request

from pipeline.service.problems import Kind, ProblemError


def media_type(request: Request, known: Sequence[str]) -> str:
    """One of `known`, whatever its parameters. Raises ProblemError for another one and for a compressed body."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if given not in known or coding != "identity":
        raise ProblemError(Kind.UNSUPPORTED_MEDIA_TYPE, f"send {' or '.join(known)}, not compressed")
    return given


async def read_body(request: Request, limit: int) -> bytes:
    """Raises ProblemError as soon as it is known to be larger than `limit`."""
    announced = request.headers.get("content-length", "")
    body = bytearray()
    too_large = announced.isdecimal() and int(announced) > limit
    if not too_large:
        async for chunk in request.stream():
            body += chunk
            if too_large := len(body) > limit:
                break
    if too_large:
        raise ProblemError(Kind.TOO_LARGE, f"at most {limit} bytes")
    return bytes(body)
