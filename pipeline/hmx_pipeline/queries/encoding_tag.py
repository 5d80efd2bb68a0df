"""Encoding tag of a capture: whether memory already holds the like of its text (`redundant`, `reinforcing`, `novel`).

Enters: a capture as JSON, its tenant and subject. Leaves: the capture with `encoding` in its payload, or as it was if
it has no text or memory does not answer.
"""

from typing import Final

import msgspec
import orjson

from hmx_pipeline.intake.steps import step_of
from hmx_pipeline.retrieval.encoding import encoding
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.store.atomic_blocks import StoreUnavailableError
from hmx_pipeline.store.fetch import Store

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def tagged(store: Store, tenant: str, subject: str | None, sent: bytes) -> bytes:
    """Returns the capture with `encoding` in its payload. Returns it as it is if there is nothing to compare, or memory
    does not answer: the tag never keeps an event out."""
    try:
        members = _members(sent)
        payload = _members(members["payload"])
        event_type, content = (orjson.loads(bytes(members[name])) for name in ("type", "payload"))
        text = step_of({"event_id": "", "event_type": event_type, "content": content}, 0, 0).text
        asked = PackRequest(query=text, tenant_id=tenant, subject_id=subject)
        found = store.fetch(plan(asked, store.embed)).episodes
    except (ValueError, TypeError, KeyError, RecursionError, StoreUnavailableError):
        return sent
    told = orjson.dumps(encoding(text, (one.source.text for one in found)))
    return msgspec.json.encode({**members, "payload": {**payload, "encoding": msgspec.Raw(told)}})
