"""How keys in Redis begin."""

import pytest

from hmx_pipeline.contracts.limits import ID_BYTES
from hmx_pipeline.store.projection import commands_of
from hmx_pipeline.store.redis_keys import Keys
from tests.support.memory import episode, episode_as_read
from tests.verifier.memory import root_of


@pytest.mark.parametrize("prefix", ["", "blue", "a b/"])
def test_the_verifier_reads_the_layout_that_is_written(prefix: str) -> None:
    assert Keys(prefix).root == root_of(prefix)


def test_what_a_word_costs_does_not_grow_with_its_tenants_name() -> None:
    keys, longest = Keys(), "é" * (ID_BYTES // 2)
    record = episode_as_read(episode("e1", " ".join(f"word{n}" for n in range(300)), tenant=longest), 0)
    written = sum(len(part) for command in commands_of(keys, [record]) for part in command)
    assert written < 16 * len(record.value or b"")
    tenants = [longest, longest[1:], "acme", "~", "~acme", keys.tenant(longest).root.rpartition("{")[2].rstrip("}")]
    roots = {keys.tenant(tenant).root for tenant in tenants}
    assert len(roots) == len(tenants)
    assert max(map(len, roots)) <= len(keys.root) + 70
