"""A repair from the topics, which hold what is erased until their retention ends."""

from hmx_pipeline.contracts.erasure import ErasedScope, ErasureMark, mark_of
from hmx_pipeline.store.damage_log import DOCUMENT, Lost
from hmx_pipeline.store.erased_memory import Erasures
from hmx_pipeline.store.redis_keys import Keys
from hmx_pipeline.store.repair import restored
from tests.support.memory import episode, episode_as_read

KEYS = Keys("test")
ERASED = episode_as_read(episode("e1", "erased words", session="s1"), 0)
KEPT = episode_as_read(episode("e1", "kept words", session="s2"), 1)


def test_a_repair_brings_no_erased_word_back() -> None:
    marks = [mark_of("acme", ErasedScope.SESSION, "s1")]
    erasures = Erasures([ErasureMark(erasure_id="x", tenant_id="acme", at=0, marks=marks, partition=0, before=99)])
    event, document = Lost(KEYS.tenant("acme"), "event", "e1"), Lost(KEYS.tenant("acme"), DOCUMENT, "0")
    found = restored(KEYS, [event, document], [ERASED, KEPT], erasures.hides)
    said = repr(found.commands)
    assert "kept words" in said
    assert "erased words" not in said
    assert found.missing == {document}
