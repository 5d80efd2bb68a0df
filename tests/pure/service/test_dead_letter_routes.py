"""Dead letters as the page shows them: no letter keeps others from being shown, or shows what must not be seen."""

from typing import Any

import orjson
import pytest

from hmx_pipeline.contracts import headers as names
from hmx_pipeline.contracts.erasure import ErasedScope, ErasureMark, mark_of
from hmx_pipeline.contracts.retention import DAY_MS
from hmx_pipeline.queries.rejected_records import VALUE_BYTES, DeadLetter, is_gone, letter_of
from hmx_pipeline.service.dead_letter_routes import _told
from hmx_pipeline.stages.fold import Record
from hmx_pipeline.store.erased_memory import Erasures

AT = 40 * DAY_MS
SECRET = "AKIAIOSFODNN7EXAMPLE"
ID: dict[str, Any] = {"event_id": "e", "tenant_id": "acme", "session_id": "s"}


def letter(value: bytes) -> DeadLetter:
    return letter_of(Record(0, 7, AT, None, value, [(names.REASON, b"bad_timestamp")]))


def erased(scope: ErasedScope, name: str) -> Erasures:
    mark = ErasureMark(
        erasure_id="e", tenant_id="acme", at=0, marks=[mark_of("acme", scope, name)], partition=0, before=10
    )
    return Erasures([mark])


DEEP = b'{"event_id":"e","tenant_id":"acme","session_id":"s","timestamp":' + b"[" * 400 + b"]" * 400 + b"}"
VALUES = [
    *(orjson.dumps(ID | {"metadata": metadata}) for metadata in ("x", [1], 3, None, {"subject_id": ["a"]}, {"hmx": 3})),
    *(b"", b"{", b"[]", b'"text"', b"null", b"\xff", DEEP, b"[" * 5_000),
]


@pytest.mark.parametrize("value", VALUES)
def test_no_letter_keeps_the_others_from_being_shown(value: bytes) -> None:
    found = letter(value)
    assert not is_gone(Erasures(), found)
    is_gone(erased(ErasedScope.SUBJECT, "ada"), found)
    assert orjson.loads(_told([found], True, 1))["total"] == 1


@pytest.mark.parametrize("name", ["event_id", "timestamp", "agent_id", "content", "unknown"])
@pytest.mark.parametrize("value", [SECRET, [SECRET], {"password": "hunter2-Zq7Xw2", "at": {"x": SECRET}}])
def test_no_field_of_a_letter_shows_a_secret(name: str, value: Any) -> None:
    for said in (ID | {name: value}, [ID | {name: value}], SECRET):
        told = _told([letter(orjson.dumps(said))], True, 1).decode()
        assert SECRET not in told
        assert "hunter2" not in told


@pytest.mark.parametrize("more", ["", "x" * VALUE_BYTES])
@pytest.mark.parametrize("named", [{"metadata": {"subject_id": "ada"}}, {"session_id": "ada/s", "metadata": "x"}])
def test_what_was_erased_of_a_subject_is_not_shown_however_long_it_is(more: str, named: dict[str, Any]) -> None:
    found = letter(orjson.dumps(ID | {"content": {"text": more}} | named))
    assert is_gone(erased(ErasedScope.SUBJECT, "ada"), found)
    assert not is_gone(erased(ErasedScope.SUBJECT, "ben"), found)


def test_a_letter_older_than_its_tenant_keeps_anything_is_not_shown() -> None:
    found = letter(orjson.dumps(ID))
    for cut, gone in ((AT, False), (AT + DAY_MS, True)):
        mark = ErasureMark(
            erasure_id="retention", tenant_id="acme", at=0, marks=[], partition=0, before=0, cuts={"all": cut}
        )
        assert is_gone(Erasures([mark]), found) is gone
