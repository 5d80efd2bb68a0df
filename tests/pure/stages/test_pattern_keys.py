"""Keys of patterns: put together in one go, they are what joining their parts gives, and can be taken apart again."""

import pytest

from hmx_pipeline.contracts.evidence import Pattern
from hmx_pipeline.contracts.keys import join_key
from hmx_pipeline.stages.pattern_keys import map_key, pattern_key, pattern_of, split_pattern, state_key
from tests.support.evidence import success

TEXTS = ("", "a", "a/b", "%", "%2F", "a\tb\nc", "é/😀%", "~._-", 'x" <y>\\', "\x00\x7f")


@pytest.mark.parametrize("tenant", TEXTS)
def test_a_pattern_has_the_key_of_its_parts(tenant: str) -> None:
    for pattern in (Pattern(kind, key) for kind in TEXTS for key in TEXTS):
        key = state_key(tenant, pattern)
        assert key == f"p/{join_key(tenant, pattern.text)}"
        assert split_pattern(key) == (tenant, pattern)


@pytest.mark.parametrize("text", TEXTS[1:])
def test_a_contribution_is_in_the_map_of_its_pattern(text: str) -> None:
    one = success(1).model_copy(update={"tenant_id": text, "pattern_key": text, "session_id": text, "segment_id": text})
    key = map_key(pattern_key(one), one)
    assert key == f"m/{join_key(one.tenant_id, one.pattern.text, one.session_id, one.segment_id)}"
    assert pattern_of(key) == pattern_key(one)
