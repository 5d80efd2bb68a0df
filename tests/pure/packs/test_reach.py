"""Packs know when to stop: a question about nothing gets nothing, and entries end where they stop helping."""

from dataclasses import replace
from typing import Any

from hmx_pipeline.contracts.options import Section
from hmx_pipeline.contracts.pack import ContextPack, DropReason
from hmx_pipeline.retrieval.score import FoundSource, MemorySnapshot, Whole
from tests.pure.packs.test_assemble import ask
from tests.pure.packs.test_drops import drops, ids, knowing, record
from tests.support.memory import artifact, episode, fetched, procedure

ALL = 1_000


def scored(*shares: float, **fields: Any) -> MemorySnapshot:
    """Episodes without a word in common, each with so much of what the question asks for."""
    said = fetched([episode(f"e{i}", " ".join(f"word{i}x{j}" for j in range(9)), index=i) for i in range(len(shares))])
    found = tuple(FoundSource(each.source, int(ALL * share)) for each, share in zip(said.episodes, shares, strict=True))
    return replace(said, episodes=found, whole=Whole(ALL, ALL, ALL), **fields)


def relevances(pack: ContextPack) -> list[float]:
    return [one["score"]["relevance"] for one in pack.metadata["explained"]["entries"]]


def test_a_question_of_which_memory_knows_little_gets_nothing() -> None:
    pack = ask(scored(0.5, 0.4, 0.3), explain=True)
    assert pack.entries == []
    assert set(drops(pack).values()) == {DropReason.LOW_RELEVANCE.value}
    because = pack.metadata["explained"]["drops"][0]["because"]
    assert because == "it answers 0.50 of the question, and here less than 0.60 is no help"


def test_who_wants_all_that_fits_says_so() -> None:
    memory = scored(0.5, 0.4, 0.01)
    filled = ask(memory, fill="budget", explain=True)
    assert ids(filled) == ["e0", "e1"]
    assert relevances(filled) == [0.5, 0.4], "the best match is no better for being the best"
    assert filled.pack_id != ask(memory).pack_id


def test_entries_end_where_they_stop_helping_whatever_the_budget() -> None:
    memory = scored(0.9, 0.6, 0.33, 0.24, 0.2)
    for budget in (4_096, 100_000):
        assert ids(ask(memory, token_budget=budget)) == ["e0", "e1", "e2"]


def test_the_more_there_is_the_more_the_next_must_answer_but_what_answers_as_well_always_helps() -> None:
    for share, all_of_them in ((0.3, False), (0.8, True)):
        shown = ids(ask(scored(0.9, *[share] * 150), token_budget=100_000))
        assert 2 < len(shown) <= 151
        assert (len(shown) == 151) is all_of_them


def test_where_nothing_is_named_that_memory_knows_a_long_answer_ends_earlier() -> None:
    strange = scored(0.9, *[0.6] * 150)
    shown, known = (ids(ask(memory, token_budget=100_000)) for memory in (strange, replace(strange, named=True)))
    assert 2 < len(shown) < len(known) == 151


def test_what_has_more_than_all_of_the_question_is_worth_one() -> None:
    assert relevances(ask(scored(1.6, 0.8), explain=True)) == [1.0, 0.5]


def test_a_question_that_names_what_memory_knows_by_name_is_about_it() -> None:
    named = record("k1", "staging: owner is Ines", body={"memory": "fact", "subject": "staging"})
    other = record("k1", "ledger: owner is Ines", body={"memory": "fact", "subject": "ledger"})
    nobody = record("k1", "user: staging is slow", body={"memory": "fact", "subject": "user"})
    for known, shown in ((named, {"e0", "k1"}), (other, set()), (nobody, set())):
        memory = scored(0.3, knowledge=(FoundSource(known, 200),))
        assert set(ids(ask(memory))) == shown


def test_a_speaker_who_is_named_is_known() -> None:
    said = fetched([episode("e0", "Jolene: I moved away")]).episodes[0].source
    jolene = replace(scored(0.3), episodes=(FoundSource(said, 300),))
    assert ids(ask(jolene, query="Where does Jolene live now?")) == ["e0"]
    assert ids(ask(jolene, query="Where does Deborah live now?")) == []


def test_a_fact_that_shares_a_common_name_alone_is_no_help_beside_a_message_that_answers() -> None:
    body = {"memory": "fact", "subject": "staging"}
    name_alone = FoundSource(record("k1", "staging: owner is Ines", body=body), 200)
    more = FoundSource(record("k2", "staging: backups are nightly", body=body), 300)
    memory = scored(0.9, knowledge=(name_alone, more))
    assert set(ids(ask(memory))) == {"e0", "k2"}
    assert drops(ask(memory))["k1"] == DropReason.LOW_RELEVANCE.value
    for less in (scored(0.5, knowledge=(name_alone,)), _asking(memory)):
        assert "k1" in ids(ask(less)), "where no message says more, who is named is all that is known"
    assert "k1" in ids(ask(memory, fill="budget"))
    assert set(ids(ask(memory, sections=["facts"]))) == {"k1", "k2"}, "a message that is not shown answers nothing"


def _asking(memory: MemorySnapshot) -> MemorySnapshot:
    """Whoever asked this before did not answer it."""
    asked = fetched([episode("e0", "What was staging about, again?")]).episodes[0].source
    return replace(memory, episodes=(FoundSource(asked, ALL),))


def test_a_procedure_that_takes_ids_like_those_of_the_question_helps_though_no_word_agrees() -> None:
    slots = {"device": {"source": "goal", "like": ["dev-0000"]}}
    made = artifact("a1", "Write off <device>", content=procedure("write it off") | {"slots": slots})
    memory = MemorySnapshot("v1", 0, artifacts=(FoundSource(made, 20),), whole=Whole(ALL, ALL, ALL))
    assert ids(ask(memory, query="dev-4711 goes to the scrapyard")) == ["a1"]
    assert ids(ask(memory, query="the printer goes to the scrapyard")) == []


def test_standing_rules_stay_whatever_is_asked() -> None:
    rule = record("r1", "Never push to main", kind="policy", body={"subject": "push to main", "negated": True})
    pack = ask(scored(0.2, knowledge=knowing(rule).knowledge))
    assert [(entry.section, entry.source_id) for entry in pack.entries] == [(Section.CORE, "r1")]


def test_a_procedure_for_one_sentence_of_a_request_helps_whatever_the_others_say() -> None:
    made = artifact("a1", content=procedure("swap") | {"goals": ["Exchange an item of my order"]})
    memory = MemorySnapshot("v1", 0, artifacts=(FoundSource(made, 150),), whole=Whole(ALL, ALL, ALL))
    wish, besides = "I would like to exchange an item of an order.", "My name is Mei Kovacs and I live near Denver."
    assert ids(ask(memory, query=f"{wish} {besides}")) == ["a1"]
    assert ids(ask(memory, query=besides)) == []


def test_what_a_procedure_takes_from_who_asks_is_beside_it_however_the_question_is_worded() -> None:
    """Whoever asks for `my depot` needs theirs; another's, and what the procedure does not take, helps nobody."""
    slots = {"depot": {"source": "user", "like": []}}
    steps = {**procedure("ship it"), "slots": slots, "goals": ["Ship it to my depot"]}
    ships = fetched([], [artifact("a1", "task_schema", content=steps)]).artifacts
    about = {"depot": "ann", "room": "ann", "other": "bob"}
    bodies = {
        name: {"memory": "fact", "subject": who, "predicate": "room" if name == "room" else "depot", "object": "x"}
        for name, who in about.items()
    }
    known = tuple(FoundSource(record(name, f"{name} is x", body=body), 1) for name, body in bodies.items())
    memory = scored(0.3, artifacts=(FoundSource(ships[0].source, 900),), knowledge=known)
    assert set(ids(ask(memory, query="Send the box there", subject_id="ann"))) == {"a1", "depot"}
