"""Corrections that are found: what a query names, what it has in common with them, and the asking agent's own."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.retrieval.correction_index import BEST, Corrections
from hmx_pipeline.retrieval.memory_index import Corrected, KnowledgeIndexEntry
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.retrieval.terms import terms


def card(
    target: str,
    said: str,
    *,
    tool: str = "Bash",
    at: int = 0,
    goal: str = "",
    agents: tuple[str, ...] = (),
    sessions: int = 1,
    labels: tuple[str, ...] = (),
) -> KnowledgeIndexEntry:
    about = Corrected(target, tool, sessions, agents, dict(Counter(terms(goal))))
    return KnowledgeIndexEntry(
        repr((target, said)).encode(), "memory", at, labels, dict(Counter(terms(f"{target} {said}"))), "", about
    )


def found(cards: dict[str, KnowledgeIndexEntry | None], query: str, **asked: Any) -> list[str]:
    known = Corrections()
    known.put(cards.items())
    return [hit.name for hit in known.best(plan(PackRequest(query=query, tenant_id="acme", **asked)))]


def test_what_a_query_names_exactly_comes_before_its_file_its_neighbours_and_its_tool() -> None:
    cards: dict[str, KnowledgeIndexEntry | None] = {
        "tool": card("src/web/page.go", "later", tool="Edit", at=9, sessions=90, goal="totals"),
        "directory": card("cmd/cart/taxes.go", "later", tool="Edit", at=8, sessions=9, goal="totals"),
        "test": card("cmd/cart/totals_test.go", "later", tool="Edit", at=7, goal="totals"),
        "exact": card("cmd/cart/totals.go", "first", tool="Edit", at=1),
        "other": card("git push", "totals first", at=9, goal="totals"),
    }
    query = "Edit /srv/shop/cmd/cart/totals.go"
    assert found(cards, query, sections=["facts"]) == ["exact", "test", "directory", "tool", "other"]


def test_of_a_target_the_newest_is_offered_and_of_one_that_is_named_everything() -> None:
    cards: dict[str, KnowledgeIndexEntry | None] = {
        "old": card("git push", "never force it", at=1, goal="publish the shop"),
        "new": card("git push", "sign it first", at=2, goal="publish the shop"),
    }
    assert found(cards, "publish the page") == ["new"]
    assert sorted(found(cards, "Bash git push origin")) == ["new", "old"]
    assert found(cards, "publish the page", as_of="1970-01-01T00:00:00.001Z") == ["old"]


def test_what_has_nothing_in_common_with_the_question_is_not_offered() -> None:
    cards: dict[str, KnowledgeIndexEntry | None] = {"a": card("git push", "never force it", goal="publish the shop")}
    assert found(cards, "what is the weather") == []


def test_an_agent_that_asks_for_what_is_known_is_offered_what_it_was_told_itself() -> None:
    cards: dict[str, KnowledgeIndexEntry | None] = {
        "mine": card("git push", "never force it", agents=("me",)),
        "other": card("git tag", "sign it", agents=("you",)),
    }
    assert found(cards, "what is the weather", agent_id="me", sections=["facts"]) == ["mine"]
    assert found(cards, "what is the weather", agent_id="me") == []


def test_a_word_that_all_of_them_have_is_no_reason_to_show_them_with_what_answers_the_query() -> None:
    cards: dict[str, KnowledgeIndexEntry | None] = {
        str(n): card(f"tool{n} run", f"ask me about number{n}", goal="plan the release") for n in range(100)
    }
    assert found(cards, "when was the trip to Lisbon planned") == []
    assert found(cards, "ask me how the trip was planned") == []
    assert found(cards, "number7 of the release") == ["7"]


def test_of_few_none_is_known_to_be_common() -> None:
    cards: dict[str, KnowledgeIndexEntry | None] = {"a": card("git push", "never force it", goal="publish the shop")}
    assert found(cards, "publish the page in April") == ["a"]


def test_beside_everything_else_few_are_offered_but_for_what_is_named() -> None:
    cards: dict[str, KnowledgeIndexEntry | None] = {
        f"{n:02}": card("git push" if n < 20 else f"git x{n}", f"way {n}", at=n, goal="publish") for n in range(90)
    }
    asked = {"query": "publish", "token_budget": 4096}
    assert found(cards, **asked) == [f"{n:02}" for n in range(89, 81, -1)]
    assert len(found(cards, **asked, sections=["facts"])) == 71
    named = found(cards, **asked | {"query": "Bash git push to publish"})
    assert sorted(named[:20]) == [f"{n:02}" for n in range(20)]
    assert len(named) == 28


def test_only_what_has_every_label_is_offered_and_the_newest_of_that() -> None:
    cards: dict[str, KnowledgeIndexEntry | None] = {
        "old": card("git push", "never force it", at=1, goal="publish", labels=("tag:a", "tag:b")),
        "new": card("git push", "sign it", at=2, goal="publish", labels=("tag:a",)),
    }
    assert found(cards, "publish", tags=["a", "b"]) == ["old"]


def test_without_a_name_none_scores_a_third_of_the_best() -> None:
    known = Corrections()
    known.put({str(n): card(f"git x{n}", "publish", at=n, goal="publish", sessions=n + 1) for n in range(9)}.items())
    scores = [hit.score for hit in known.best(plan(PackRequest(query="publish", tenant_id="acme", sections=["facts"])))]
    assert len(scores) == 9
    assert max(scores) < BEST / 3


TARGETS = ("git push", "git tag", "src/cart/totals.py", "ExitPlanMode")
some = st.builds(
    card,
    st.sampled_from(TARGETS),
    st.sampled_from(("never force it", "sign it first", "in a branch")),
    at=st.integers(0, 5),
    goal=st.sampled_from(("", "publish the shop", "fix the totals")),
    agents=st.sampled_from(((), ("me",))),
    sessions=st.integers(1, 4),
)
changes = st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | some), max_size=20)
queries = st.sampled_from(("publish the shop", "Bash git push", "totals.py", "ExitPlanMode", "sign it first"))


@given(changes, queries)
def test_what_was_there_before_leaves_no_trace(
    changed: list[tuple[str, KnowledgeIndexEntry | None]], query: str
) -> None:
    asked = plan(PackRequest(query=query, tenant_id="acme", agent_id="me"))
    grown = Corrections()
    for one in changed:
        grown.put([one])
        grown.best(asked)  # what is remembered of it must not outlive a change
    made = Corrections()
    made.put(sorted((name, one) for name, one in dict(changed).items() if one is not None))
    assert grown.best(asked) == made.best(asked)
    assert grown.nbytes == made.nbytes
