"""Each thing once: what happened many times is one entry, and what one entry says no other repeats."""

from dataclasses import replace

from hmx_pipeline.contracts.options import Section
from hmx_pipeline.contracts.pack import DropReason
from hmx_pipeline.packs.render import MARKER, cut
from hmx_pipeline.packs.tokens import estimate
from hmx_pipeline.retrieval.score import FoundSource
from tests.pure.packs.test_assemble import ask
from tests.pure.packs.test_drops import DAY, drops, ids, knowing, record
from tests.support.memory import T0, artifact, episode, fetched

RUNS = [episode(f"e{n}", f"The deploy of cart 1.{n}.0 is live", at=T0 - (9 - n) * DAY, index=n) for n in range(9)]


def test_what_differs_in_numbers_alone_is_one_entry_with_a_count_and_the_newest() -> None:
    pack = ask(fetched(RUNS))
    assert ids(pack) == ["e8"]
    assert pack.entries[0].content.endswith("cart 1.8.0 is live (9 times, last 2026-03-13)")
    assert pack.entries[0].token_estimate == estimate(pack.entries[0].content)
    assert set(drops(pack).values()) == {DropReason.DUPLICATE.value}
    assert pack.assembly_metadata.candidate_count == len(RUNS)


def test_the_one_that_answers_best_stands_for_all() -> None:
    found = fetched(RUNS)
    best = tuple(FoundSource(each.source, 3_000 if each.source.event_id == "e2" else 1_000) for each in found.episodes)
    assert ids(ask(replace(found, episodes=best))) == ["e2"]


def test_an_event_that_came_again_long_after_is_one_and_has_no_count() -> None:
    once, again = ask(fetched(RUNS[:1])), ask(fetched([RUNS[0], RUNS[0]]))
    assert again.entries == once.entries
    assert not again.dropped_entries
    late = episode("e0", "The deploy of cart 1.0.0 is live", at=T0, index=3)
    asked = {"as_of": "2026-03-10T00:00:00Z"}
    assert ids(ask(fetched([late, RUNS[0]]), **asked)) == ids(ask(fetched(RUNS[:1]), **asked)) == ["e0"]


def test_a_wish_in_the_words_of_the_question_is_no_answer() -> None:
    asked = "Is cart 1.4 <live> on the north cluster?\nI need it today"
    again = [episode("again", asked), episode("line", "I need it today!", index=1)]
    for other in ("Is cart 1.5 <live> on the north cluster?", "Cart 1.4 is <live> on the north cluster"):
        pack = ask(fetched([*again, episode("other", other, index=2)]), query=asked)
        assert ids(pack) == ["other"]
        assert drops(pack) == {"again": "duplicate", "line": "duplicate"}


def test_facts_that_differ_in_a_number_are_several() -> None:
    ports = [record(f"k{n}", f"The port of the ledger service is 80{n}0") for n in range(3)]
    assert len(ids(ask(knowing(*ports)))) == 3


def test_a_decision_that_is_a_fact_a_relation_and_a_turn_is_one_entry() -> None:
    said = "Restart checkout or roll it back? We restart it, for the cause is known"
    memory = replace(
        knowing(
            record("fact", f"decision: {said}", source_events=["e1", "e2"]),
            record("relation", f"rhea decided: {said}", kind="relation", source_events=["e1"]),
        ),
        episodes=fetched([episode("e1", said), episode("e3", f"Somebody else: {said}", index=1)]).episodes,
    )
    pack = ask(memory)
    assert ids(pack) == ["fact", "e3"]
    assert drops(pack) == {"relation": "duplicate", "e1": "duplicate"}


def test_what_users_asked_for_when_a_procedure_was_learnt_is_in_the_procedure() -> None:
    said = [episode("e1", "Deploy staging, please"), episode("e2", "Who deploys staging at night?", index=1)]
    pack = ask(fetched(said, [artifact("a1", source_events=["e1"])]))
    assert ids(pack) == ["a1", "e2"]
    no_room = ask(fetched(said, [artifact("a1", source_events=["e1"])]), sections=[Section.EPISODES])
    assert "e1" in ids(no_room), "where the procedure is not in the pack, nothing else says it"


def test_an_action_is_whole_or_not_there() -> None:
    text = "Then run `kubectl create secret docker-registry regcred -n staging` and try again"
    for limit in range(6, estimate(text)):
        told = cut(text, limit)
        assert told is None or told.count("`") % 2 == 0
        assert told is None or told.endswith(MARKER)
