"""`GET /v1/hmx/dead-letters`: a tenant's newest rejected records, why they were rejected, and what to do.

Enters: a key of scope admin. Leaves: letters whose value names the tenant, without secrets, and without those that
were erased or are older than the tenant keeps anything. Letters that name no tenant are shown only where there are no
keys. Raises ProblemError if Kafka does not answer, or does not let the service read them: `hmx acls` does not grant
that.
"""

from typing import Annotated, Final

import orjson
from confluent_kafka import KafkaException
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from hmx_pipeline.contracts.limits import ID_BYTES
from hmx_pipeline.kafka.client_login import denied
from hmx_pipeline.kafka.topic_files import TopicsError
from hmx_pipeline.queries.rejected_records import DeadLetter
from hmx_pipeline.service.access import Operator, grant_of
from hmx_pipeline.service.body import JSON
from hmx_pipeline.service.fair_turns import FairTurns
from hmx_pipeline.service.problems import ProblemKind, unavailable
from hmx_pipeline.service.streams import erased_of
from hmx_pipeline.service.ttl_cache import TtlCache
from hmx_pipeline.store.erased_memory import Erasures

KEPT_S: Final = 5.0
KEPT_TIMES: Final = 10.0
MOST: Final = 100

router: Final = APIRouter(prefix="/v1/hmx", tags=["operating"])


@router.get("/dead-letters")
async def get_dead_letters(
    request: Request,
    tenant: Operator,
    reason: Annotated[str, Query(max_length=ID_BYTES, description="Only this reason")] = "",
    limit: Annotated[int, Query(ge=1, le=MOST)] = 20,
) -> Response:
    """Lists the tenant's newest rejected records: the reason, what to do, and the value without secrets."""
    erased = await erased_of(request)
    letters: TtlCache[tuple[list[DeadLetter], bool]] = request.app.state.letters
    try:
        found, complete = await letters.get()
    except (KafkaException, TopicsError, TimeoutError) as error:
        said = denied(error.args[0]) if isinstance(error, KafkaException) else str(error)
        detail = f"the dead letters can't be read ({said or error}): `hmx dlq` shows them to whoever may read them"
        raise unavailable(ProblemKind.KAFKA_UNAVAILABLE, detail) from None
    seen = ("", tenant) if grant_of(request).open else (tenant,)
    theirs = [one for one in found if one.tenant in seen and reason in ("", one.reason) and not _gone(erased, one)]
    turns: FairTurns = request.app.state.reading
    return Response(await turns.run(tenant, _told, theirs, complete, limit), media_type=JSON)


def _gone(erased: Erasures, letter: DeadLetter) -> bool:
    """Of its age only the rejection tells: what the letter says itself may be what was rejected."""
    if erased.forgets(letter.tenant, letter.rejected):
        return True
    return erased.hides_event(letter.tenant, letter.session, letter.subject, letter.origin)


def _told(letters: list[DeadLetter], complete: bool, limit: int) -> bytes:
    reasons: dict[str, int] = {}
    for letter in letters:
        reasons[letter.reason] = reasons.get(letter.reason, 0) + 1
    rows = [letter.as_json() for letter in letters[:limit]]
    return orjson.dumps({"total": len(letters), "complete": complete, "reasons": reasons, "letters": rows})
