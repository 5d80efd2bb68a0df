"""How keys in Redis begin."""

import pytest

from hmx_pipeline.store.redis_keys import Keys
from tests.verifier.memory import root_of


@pytest.mark.parametrize("prefix", ["", "blue", "a b/"])
def test_the_verifier_reads_the_layout_that_is_written(prefix: str) -> None:
    assert Keys(prefix).root == root_of(prefix)
