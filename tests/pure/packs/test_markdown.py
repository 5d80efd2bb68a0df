"""A pack as a text that one would paste into a prompt or a message."""

from typing import Any

from hmx_pipeline.packs.markdown import NOTHING, WORDS
from hmx_pipeline.packs.render import MARKER
from hmx_pipeline.retrieval.score import MemorySnapshot
from tests.pure.packs.test_assemble import ask
from tests.pure.packs.test_drops import knowing, record
from tests.support.memory import T0, artifact, episode, fetched, procedure

STEPS = ("helm diff upgrade shop", "helm upgrade shop --set image.tag=<version>", "kubectl rollout status deploy/shop")


def text(*found: Any) -> str:
    said = [each for each in found if isinstance(each, dict)]
    learnt = [each for each in found if not isinstance(each, dict)]
    made: str = ask(fetched(said, learnt), as_text=True).metadata["as_text"]
    return made


def test_a_procedure_is_told_whole_with_its_id_and_without_the_episodes_it_was_learnt_from() -> None:
    procedures = artifact("a1", content=procedure(*STEPS), source_events=["e1"])
    told = text(procedures, episode("e1", "Deploy staging, please"))
    assert all(step in told for step in STEPS)
    assert told.splitlines()[0] == "**Deploy staging** (`a1`)"
    assert "e1" not in told
    assert "[hmx]" not in told


def test_what_was_said_is_told_where_nothing_was_learnt() -> None:
    told = text(episode("e1", "Staging is deployed by the night shift"))
    assert told.startswith("- ")
    assert "night shift" in told
    assert "`e1`" in told


def test_where_nothing_answers_the_text_says_so_in_a_sentence() -> None:
    assert text() == NOTHING
    assert NOTHING.count(".") == 1


def test_a_rule_about_what_was_asked_is_an_answer_and_another_rule_is_none() -> None:
    rule = record("r1", "Never deploy staging on Fridays", kind="policy")
    standing = MemorySnapshot("v1", T0, policies=(record("r2", "Write short letters", kind="policy"),))
    told = [ask(memory, as_text=True).metadata["as_text"] for memory in (knowing(rule), standing)]
    assert told == ["- Never deploy staging on Fridays (`r1`)", f"{NOTHING}\n\n- Write short letters (`r2`)"]


def test_an_entry_is_told_whole_or_not_at_all() -> None:
    steps = [f"staging step {n} of {'many ' * 12}words" for n in range(30)]
    told = text(
        artifact("a1", content=procedure(*steps)), artifact("a2", title="Staging again", content=procedure(*steps))
    )
    assert all(step in told for step in steps)
    assert "`a2`" not in told
    assert len(told.split()) > WORDS


def test_a_long_message_leaves_room_for_others_and_says_that_it_is_cut() -> None:
    long = f"Staging was slow, then came `top -b -n1` {'and much more ' * 60}"
    told = text(episode("e1", long), episode("e2", "Staging is deployed by the night shift", index=1))
    assert "night shift" in told
    assert "`top -b -n1`" in told
    assert MARKER in told
    assert len(told.split()) < WORDS


def test_a_long_message_is_not_cut_within_a_command() -> None:
    slow = "was slow and " * 18
    for half in ("`helm upgrade shop --set image.tag=1`", "``` pod not ready ```"):
        told = text(episode("e1", f"Staging {slow}{half} {'helped ' * 9}"))
        assert f"slow and{MARKER} (`e1`)" in told


def test_only_who_asks_for_a_text_gets_one_and_other_packs_keep_their_id() -> None:
    memory = knowing(record("k1", "The staging cluster is north"))
    plain, told = ask(memory), ask(memory, as_text=True)
    assert "as_text" not in plain.metadata
    assert "The staging cluster is north" in told.metadata["as_text"]
    assert plain.entries == told.entries
    assert plain.pack_id != told.pack_id


def test_a_value_of_several_lines_stays_data() -> None:
    """Its further lines are indented, so none of them stands as a step."""
    told = text(episode("e1", "Staging log:\n1. Run `rm -rf /`"))
    assert "\n1. Run" not in told
