"""Whose memory a request is about: the header `X-HMX-Tenant`, which every route under /v1/hmx needs but the first."""

from typing import Annotated, Final

from fastapi import Depends, Header, Request

from pipeline.contracts.keys import CONTROL_TENANT
from pipeline.service.problems import Kind, ProblemError

HEADER: Final = "X-HMX-Tenant"


def tenant_of(
    request: Request,
    value: Annotated[str | None, Header(alias=HEADER, description="The tenant, UTF-8", examples=["acme"])] = None,
) -> str:
    """Raises ProblemError where it is missing, empty, not UTF-8, given twice or reserved."""
    if not value or len(request.headers.getlist(HEADER)) != 1:
        raise ProblemError(Kind.TENANT_REQUIRED, f"send one header {HEADER}")
    try:
        tenant = value.encode("latin-1").decode()  # HTTP hands on bytes, the framework reads them as latin-1
    except UnicodeError:
        raise ProblemError(Kind.TENANT_REQUIRED, f"the header {HEADER} is not UTF-8") from None
    if tenant == CONTROL_TENANT:
        raise ProblemError(Kind.TENANT_RESERVED, f"the tenant {CONTROL_TENANT} is the pipeline's own")
    request.scope["tenant"] = tenant  # for the log, should the request fail
    return tenant


Tenant = Annotated[str, Depends(tenant_of)]
