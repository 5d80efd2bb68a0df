"""What Redis holds that is no record is left out: it is no reason to answer nothing."""

from typing import Any

import pytest

from hmx_pipeline.store.fingerprint_inputs import _conduct, _read, _whose
from hmx_pipeline.store.redis_keys import Keys
from hmx_pipeline.store.source_cache import read_artifact, read_knowledge

NO_RECORDS = [b"", b"torn", b"[]", b"7", b"{}", b'{"content": 1}']


@pytest.mark.parametrize("value", NO_RECORDS)
def test_what_is_no_record_is_no_model(value: bytes) -> None:
    assert read_artifact(value) == (None, False)
    assert read_knowledge(value) == (None, False)


class Holding:
    """Redis, that holds these values whatever it is asked."""

    def __init__(self, *values: bytes | None) -> None:
        self.values = values

    def mget(self, keys: list[bytes]) -> Any:
        return self.values


def test_a_fingerprint_leaves_out_what_it_cannot_read() -> None:
    keys = [Keys("t-").tenant("acme").contribution(f"c{n}") for n in range(len(NO_RECORDS) + 2)]
    client = Holding(*NO_RECORDS, None, b'{"contribution_id": "c1", "agent_id": "a"}')
    assert [one.agent_id for one in _read(client, _whose, keys)] == ["a"]
    assert _read(client, _conduct, keys) == []
