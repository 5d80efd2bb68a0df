"""What a process remembers of captures, and which of its own it may write."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from hmx_pipeline.contracts.episode import named_subject
from hmx_pipeline.contracts.ids import keyed_id
from hmx_pipeline.contracts.limits import CONTENT_BYTES, ID_BYTES
from hmx_pipeline.queries.context_pack import surfaced
from hmx_pipeline.service.api_keys import USUAL, Grant
from hmx_pipeline.service.hippocortex.capture import Capture, Captures, _completed, _tagged, _written
from hmx_pipeline.service.hippocortex.minting import Minted
from hmx_pipeline.service.hippocortex.usage import Usage
from hmx_pipeline.service.problems import ProblemError, ProblemKind
from tests.pure.packs.test_assemble import ask
from tests.support.memory import episode, fetched


class NoStore:
    def capturing(self, _: int) -> None:
        return None


def captured(tenant: str) -> Capture:
    name = keyed_id(tenant, "s" * ID_BYTES, "k" * 10_000)
    return Capture({"session_id": "s" * ID_BYTES, "event_id": name}, keyed=True)


def test_what_is_remembered_of_a_key_has_one_length_and_is_no_other_tenants() -> None:
    async def chosen() -> tuple[list[int], Any]:
        unused: Any = None
        store: Any = NoStore()
        captures = Captures(unused, store, Usage(), unused, unused)
        return [
            len(captures._chosen([captured(tenant)])) for tenant in ("t" * ID_BYTES, "t", "t" * ID_BYTES)
        ], captures._appending

    counts, remembered = asyncio.run(chosen())
    assert counts == [1, 1, 0], "the third is the first once more"
    assert {len(name) for name in remembered} == {36}


@pytest.mark.parametrize("asked", [None, "helper"])
@pytest.mark.parametrize("grant", [Grant("acme", USUAL), Grant("acme", USUAL, "u1"), Grant("acme", USUAL, agent="ops")])
def test_every_key_that_may_write_may_say_what_a_pack_has_shown(grant: Grant, asked: str | None) -> None:
    pack = ask(fetched([episode("e1", "please deploy the staging environment")]), agent_id=asked)
    taken = _completed(surfaced(pack, grant.subject, grant.agent), grant)
    assert taken.refused is None
    assert taken.fields["agent_id"] == (grant.agent or asked or "memory")


class AtOnce:
    async def run(self, _: str, work: Callable[..., Any], *arguments: Any) -> Any:
        return work(*arguments)


def test_what_a_pack_has_shown_and_nobody_takes_is_a_refusal_and_no_success() -> None:
    grant = Grant("acme", USUAL, "x" * (ID_BYTES - 9))
    pack = ask(fetched([episode("e1", "please deploy the staging environment")]))

    async def taken() -> Capture:
        unused: Any = None
        store: Any = NoStore()
        turns: Any = AtOnce()
        captures = Captures(unused, store, Usage(), turns, unused)
        return await captures.take_one("acme", grant, surfaced(pack, grant.subject, None))

    with pytest.raises(ProblemError) as refused:
        asyncio.run(taken())
    assert refused.value.kind is ProblemKind.EVENT_REJECTED


@pytest.mark.parametrize("said", [b"null", b'""', b"{}"])
@pytest.mark.parametrize("grant", [Grant("acme", USUAL), Grant("acme", USUAL, "u1")])
def test_a_subject_id_that_names_nobody_gives_way_to_the_user(said: bytes, grant: Grant) -> None:
    user = b'"userId": "u1",' if grant.subject is None else b""
    sent = (
        b'{"type": "message", "sessionId": "s", %b "payload": {"text": "hi"}, "metadata": {"subject_id": %b, "n": 1.0}}'
    )
    taken = _completed(sent % (user, said), grant)
    assert taken.refused is None
    written = orjson.loads(_written(taken, Minted(0, 0)))
    assert (named_subject(written["metadata"]), written["metadata"]["n"]) == ("u1", 1.0)


def test_the_encoding_tag_keeps_no_event_out_that_has_the_largest_content() -> None:
    def sent(size: int) -> bytes:
        return orjson.dumps({"type": "message", "sessionId": "s", "payload": {"text": "hello", "more": "x" * size}})

    store: Any = SimpleNamespace(embed=None, fetch=lambda _: fetched([]))
    grant = Grant("acme", USUAL)
    size = next(n for n in range(CONTENT_BYTES, 0, -1) if _completed(sent(n), grant).refused is None)
    assert b'"encoding":"novel"' in _tagged(store, grant, sent(size - 100))
    assert _tagged(store, grant, sent(size)) == sent(size)
    assert _tagged(store, grant, b"{") == b"{"
