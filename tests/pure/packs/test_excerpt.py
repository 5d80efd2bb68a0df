"""A long message stands in a pack as what of it the question asks for, in whole pieces."""

import pytest

from hmx_pipeline.packs.excerpt import GAP, LONG, excerpt, pieces
from hmx_pipeline.packs.tokens import estimate
from hmx_pipeline.retrieval.terms import terms
from tests.pure.packs.test_assemble import ask
from tests.support.memory import episode, fetched

FENCE = "```bash\nkubectl drain node-7 \\\n  --ignore-daemonsets\n\nkubectl delete node node-7. Then wait.\n```"
TALK = "\n".join(
    f"Point {n} of the weekly notes is about something else, e.g. the {n}th plant. Water it." for n in range(20)
)
ANSWER = "The cache listens on port 6390. It moved there in May."


def said(text: str, question: str, characters: int) -> str:
    return excerpt(text, dict.fromkeys(terms(question), 256), characters)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("One is here. Two is there! Is it? Yes.", ["One is here.", "Two is there!", "Is it?", "Yes."]),
        (
            "Ask Dr. Smith, e.g. Today. It works (really.) Go.",
            ["Ask Dr. Smith, e.g. Today.", "It works (really.)", "Go."],
        ),
        ("1. Build it\n2. Run `make. Now` here\n---\n", ["1. Build it", "2. Run `make. Now` here"]),
        ("docker build . -t web\ngit push", ["docker build . -t web", "git push"]),
        ("curl -s \\\n  -X POST a.b\nls", ["curl -s \\ -X POST a.b", "ls"]),
        (f"Do this:\n{FENCE}\nDone.", ["Do this:", " ".join(FENCE.split()), "Done."]),
        ("これは一つ。これは二つ。", ["これは一つ。", "これは二つ。"]),
        ("a stray ` mark. Then more", ["a stray ` mark.", "Then more"]),
        (
            f"{'a line that is wrapped by its author ' * 2}\nand goes on",
            [f"{'a line that is wrapped by its author ' * 2}and goes on"],
        ),
    ],
)
def test_pieces_are_whole_sentences_items_and_commands(text: str, whole: list[str]) -> None:
    assert list(pieces(text).texts) == whole


def test_the_excerpt_holds_what_matches_and_what_follows_and_marks_the_rest() -> None:
    found = said(f"{TALK}\n{ANSWER}\n{TALK}", "Which port does the cache listen on?", len(ANSWER) + 2)
    assert found == f"{GAP} {ANSWER} {GAP}"


def test_where_nothing_matches_the_beginning_stands() -> None:
    found = said(TALK, "unheard", 100)
    assert found.endswith(f" {GAP}")
    assert TALK.replace("\n", " ").startswith(found.removesuffix(f" {GAP}"))


def test_a_block_of_commands_is_there_whole_or_not_at_all() -> None:
    text = f"{TALK}\n{FENCE}\n{TALK}"
    for characters in range(20, 400, 20):
        found = said(text, "How do I drain a node?", characters)
        assert " ".join(FENCE.split()) in found or "kubectl" not in found
        assert len(found.replace(f"{GAP} ", "").replace(f" {GAP}", "")) <= characters


def test_a_pack_shows_a_long_message_by_its_excerpt() -> None:
    memory = fetched([episode("e-long", f"Anna: {TALK}\n{ANSWER}\n{TALK}"), episode("e-short", "So it is.", index=1)])
    question = "Which port does the cache listen on?"
    pack = ask(memory, query=question)
    shown = {entry.source_id: entry for entry in pack.entries}
    assert ANSWER in shown["e-long"].content
    assert GAP in shown["e-long"].content
    assert shown["e-long"].content.startswith("[hmx]2026-03-14 Anna: [...] ")
    assert shown["e-long"].token_estimate == estimate(shown["e-long"].content) < LONG + 30
    assert shown["e-short"].content.endswith("user: So it is.")
    assert not pack.token_budget.truncated, "a larger budget would show no more of it"
    filled = ask(memory, query=question, fill="budget")
    assert max(entry.token_estimate for entry in filled.entries) > 2 * LONG, "who wants all that fits gets it whole"


def test_a_small_budget_gets_a_shorter_excerpt() -> None:
    pack = ask(
        fetched([episode("e-long", f"{TALK[:700]}\n{ANSWER}\n{TALK}")]),
        query="What is the cache's port?",
        token_budget=64,
    )
    assert ANSWER in pack.entries[0].content
    assert pack.token_budget.truncated
