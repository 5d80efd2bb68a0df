"""`GET /v1/hmx/dead-letters`: a tenant's newest rejected records, why they were rejected, and what to do; and
`POST /v1/hmx/dead-letters/{partition}/{offset}/replay`, which sends one back.

Enters: a key of scope admin. Leaves: letters whose value names the tenant, without secrets, and without those that
were erased or are older than the tenant keeps anything. Letters that name no tenant are shown only where there are no
keys. Raises ProblemError if Kafka does not answer, or does not let the service read them: `hmx acls` does not grant
that.
"""

import asyncio
from contextlib import aclosing
from typing import Annotated, Final

import orjson
from confluent_kafka import KafkaException
from fastapi import APIRouter, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from hmx_pipeline.contracts.limits import ID_BYTES, INTEGER_MAX
from hmx_pipeline.kafka.client_login import denied
from hmx_pipeline.kafka.topic_files import TopicsError
from hmx_pipeline.queries import rejected_records
from hmx_pipeline.queries.dead_letter_policy import LetterFilter, ReplayDecision, first_place, judge
from hmx_pipeline.queries.rejected_records import DeadLetter, FoundLetter, is_gone, letter_of
from hmx_pipeline.service.access import Operator, grant_of
from hmx_pipeline.service.api_keys import Scope
from hmx_pipeline.service.body import JSON
from hmx_pipeline.service.event_log import EventRecord
from hmx_pipeline.service.events import Refused, append, check
from hmx_pipeline.service.fair_turns import FairTurns
from hmx_pipeline.service.memory import erased_of
from hmx_pipeline.service.problems import ProblemError, ProblemKind, unavailable
from hmx_pipeline.service.session_routes import SEARCH_S, of_session
from hmx_pipeline.service.subscriptions import Subscriptions
from hmx_pipeline.service.ttl_cache import TtlCache

KEPT_S: Final = 5.0
KEPT_TIMES: Final = 10.0
MOST: Final = 100
PARTITIONS: Final = 2**31 - 1
"""Kafka's own limit."""
_FAILURES: Final = (KafkaException, TopicsError, TimeoutError)

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
    except _FAILURES as error:
        raise _unread(error) from None
    seen = ("", tenant) if grant_of(request).open else (tenant,)
    theirs = [one for one in found if one.tenant in seen and reason in ("", one.reason) and not is_gone(erased, one)]
    turns: FairTurns = request.app.state.reading
    return Response(await turns.run(tenant, _told, theirs, complete, limit), media_type=JSON)


@router.post("/dead-letters/{partition}/{offset}/replay", status_code=202)
async def replay_dead_letter(
    request: Request,
    tenant: Operator,
    partition: Annotated[int, Path(ge=0, le=PARTITIONS)],
    offset: Annotated[int, Path(ge=0, le=INTEGER_MAX)],
) -> Response:
    """Sends a rejected record back as it came, if it would be accepted now and was not sent before; else 422."""
    grant = grant_of(request)
    if Scope.WRITE not in grant.scopes:
        raise ProblemError(ProblemKind.FORBIDDEN, "this appends an event: use a key of the scopes admin and write")
    erased, searching = await erased_of(request), request.app.state.searching
    try:
        async with searching.of(tenant), asyncio.timeout(SEARCH_S):
            found = await run_in_threadpool(rejected_records.one, request.app.state.settings, partition, offset)
            told = None if found is None else letter_of(found.letter)
            if found is None or told is None or told.tenant != tenant or is_gone(erased, told):
                raise ProblemError(ProblemKind.NOT_FOUND, "the tenant has no dead letter at this place")
            refused = check(found.letter.value or b"", grant)
            if isinstance(refused, Refused):
                detail = f"it would be rejected again: {refused.detail}"
                raise ProblemError(ProblemKind.EVENT_REJECTED, detail, reason=refused.reason, path=refused.path)
            fate, detail = judge(found.letter, LetterFilter(), ())[1:]
            if fate.goes and await _stands_again(request.app.state.following, found):
                fate = ReplayDecision.BEFORE
    except _FAILURES as error:
        raise _unread(error) from None
    if not fate.goes:
        raise ProblemError(ProblemKind.EVENT_REJECTED, detail or fate.meaning, reason=fate)
    back = found.back
    record = EventRecord((back.key or b"").decode(), back.value or b"", back.headers)
    (position,) = await append(request.app.state.log, [record])
    return Response(orjson.dumps({"status": "accepted", **position._asdict()}), 202, media_type=JSON)


async def _stands_again(following: Subscriptions, found: FoundLetter) -> bool:
    """Returns whether the same bytes stand in the log once more, after the place where they were rejected."""
    letter, back, log = found
    first, after = first_place(letter)
    begin = max(log.low, after + 1) if first == back.partition else log.low
    steps = of_session(following, back.key or b"", (back.topic, back.partition), begin, log.high)
    async with aclosing(steps):
        async for record in steps:
            if record.value == back.value:
                return True
    return False


def _unread(error: Exception) -> ProblemError:
    said = denied(error.args[0]) if isinstance(error, KafkaException) else str(error)
    said = said or str(error) or f"no answer within {SEARCH_S:.0f} s"
    detail = f"the dead letters can't be read ({said}): `hmx dlq` shows them to whoever may read them"
    return unavailable(ProblemKind.KAFKA_UNAVAILABLE, detail)


def _told(letters: list[DeadLetter], complete: bool, limit: int) -> bytes:
    reasons: dict[str, int] = {}
    for letter in letters:
        reasons[letter.reason] = reasons.get(letter.reason, 0) + 1
    rows = [letter.as_json() for letter in letters[:limit]]
    return orjson.dumps({"total": len(letters), "complete": complete, "reasons": reasons, "letters": rows})
