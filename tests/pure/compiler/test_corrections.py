"""What users correct: by what it was about, in whose words, the same whatever order the sessions come in."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hmx_pipeline.compiler.extract import contributions
from hmx_pipeline.compiler.knowledge.knowledge_records import records
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.knowledge import KnowledgeRecord, is_correction
from hmx_pipeline.contracts.limits import KNOWLEDGE_CORRECTIONS
from tests.support.inprocess import events_log, evidence_logs
from tests.support.records import event
from tests.support.segments import START, Script
from tests.support.sessions import interleaved
from tests.support.talk import known

REPORTED = "The user doesn't want to proceed with this tool use. STOP what you are doing and wait."
QUOTED = "The user doesn't want to proceed with this. To tell you how to proceed, the user said:\nuse a branch"
INTERRUPTED = "[Request interrupted by user for tool use]"


def said_in(*scripts: Script) -> list[Contribution]:
    made = (c for script in scripts for c in contributions(script.segment()))
    return [c for c in made if c.pattern_type == "correction"]


def known_of(*scripts: Script) -> list[KnowledgeRecord]:
    by_pattern: dict[str, list[Contribution]] = {}
    for c in said_in(*scripts):
        by_pattern.setdefault(c.pattern_key, []).append(c)
    return [record for own in by_pattern.values() for record in records(own)]


def pushing(session: str = "s", start: int = START) -> Script:
    script = Script(session, start=start)
    script.user("Publish the shop's totals page")
    script.tool("Bash", values=("git push --force",))
    return script


def test_a_rejection_says_in_its_comment_what_to_do_instead() -> None:
    script = pushing()
    feedback = script.feedback("correction", "never force a push")
    (record,) = known_of(script)
    assert is_correction(record)
    assert record.text == "user on git push: never force a push"
    assert record.source_events == [feedback]
    assert record.body["goal"] == {"Publish": 1, "page": 1, "shop": 1, "totals": 1}
    assert (record.body["target"], record.body["tool"], record.body["sessions"]) == ("git push", "Bash", 1)


def test_a_client_that_quotes_the_user_is_left_out() -> None:
    script = pushing()
    script.feedback("correction", QUOTED)
    assert [record.body["said"] for record in known_of(script)] == ["use a branch"]


@pytest.mark.parametrize(
    "comment",
    ["", REPORTED, INTERRUPTED, "task outcome: reward=0", "Stopped by the user", "the user refused the call"],
)
def test_a_rejection_without_words_is_explained_by_the_message_that_follows(comment: str) -> None:
    script = pushing()
    rejected = script.feedback("negative", comment)
    explained = script.user("that branch is protected")
    (record,) = known_of(script)
    assert record.body["said"] == "that branch is protected"
    assert record.source_events == [rejected, explained]


def test_of_a_rejection_and_an_interruption_the_same_words_are_one_correction() -> None:
    script = pushing()
    rejections = [script.feedback("correction", REPORTED), script.feedback("negative", INTERRUPTED)]
    explained = script.user("that branch is protected")
    (record,) = known_of(script)
    assert record.source_events == [rejections[0], explained, rejections[1]]


@pytest.mark.parametrize(("signal", "comment"), [("positive", "well done"), ("negative", INTERRUPTED)])
def test_praise_and_what_nobody_explains_are_no_corrections(signal: str, comment: str) -> None:
    script = pushing()
    script.feedback(signal, comment)
    script.agent("I go on.")
    script.user("And now the taxes page")
    assert known_of(script) == []


def test_it_is_about_its_target_else_about_the_last_thing_done_before() -> None:
    script = pushing()
    edited = script.tool("Edit", values=("/home/me/shop/src/totals.py",))
    script.agent("Now I would publish it.")
    script.feedback("correction", "net of taxes", target=edited)
    script.tool("Read", values=("/home/me/shop/src/taxes.py",))
    script.feedback("correction", "not this one")
    assert [(r.body["target"], r.body["said"]) for r in known_of(script)] == [
        ("shop/src/totals.py", "net of taxes"),
        ("shop/src/taxes.py", "not this one"),
    ]


def test_what_was_rejected_before_it_was_done_is_named_by_the_feedback_itself() -> None:
    script = pushing()
    script.feedback("correction", "ask before you drop anything", values=("Bash", "dropdb shop --if-exists"))
    assert [record.body["target"] for record in known_of(script)] == ["dropdb"]


def test_a_producer_names_what_it_rejects_in_the_metadata() -> None:
    log = [
        event("s", 0, event_type="message", content={"role": "user", "text": "Publish the totals page"}),
        event(
            "s",
            1,
            event_type="feedback",
            content={"signal": "correction", "comment": "ask before you drop anything"},
            metadata={"rejected_tool": "Bash", "rejected_command": "dropdb shop --if-exists"},
        ),
    ]
    found = known(evidence_logs(events_log(log).values()))
    assert [r["text"] for r in found.values()] == ["user on dropdb: ask before you drop anything"]


def test_what_is_said_again_is_said_by_more_sessions_and_what_is_said_later_stands_beside_it() -> None:
    scripts = [pushing(f"s{n}", START + n * 86_400_000) for n in range(3)]
    scripts[0].feedback("correction", "Never force a push")
    scripts[1].feedback("correction", "never force a push")
    scripts[2].feedback("correction", "sign the tag first")
    first, second = sorted(known_of(*scripts), key=lambda record: record.text)
    assert (first.body["said"], second.body["said"]) == ("never force a push", "sign the tag first")
    assert first.body["sessions"] == second.body["sessions"] == 3
    assert first.confidence > second.confidence
    assert first.source_events == ["s0-3", "s1-3"]
    assert (first.session_id, second.session_id) == (None, "s2")


def test_of_many_texts_about_one_target_the_newest_are_known() -> None:
    scripts = [pushing(f"s{n}", START + n * 86_400_000) for n in range(KNOWLEDGE_CORRECTIONS + 3)]
    for n, script in enumerate(scripts):
        script.feedback("correction", f"rule number {n}")
    assert sorted(int(r.body["said"].split()[-1]) for r in known_of(*scripts)) == list(
        range(3, KNOWLEDGE_CORRECTIONS + 3)
    )


targets = st.sampled_from(["git push", "git tag v1", "ls"])
words = st.sampled_from(["never force it", "Never force it", "sign it first", "in a branch"])


@given(st.lists(st.lists(st.tuples(targets, words), max_size=5), min_size=1, max_size=5), st.randoms())
def test_what_is_known_does_not_depend_on_the_order_of_sessions(
    sessions: list[list[tuple[str, str]]], dice: random.Random
) -> None:
    scripts = []
    for n, corrected in enumerate(sessions):
        script = Script(f"s{n}", start=START + n * 7_200_000)
        script.user("Publish the shop")
        for command, text in corrected:
            script.tool("Bash", values=(command,))
            script.feedback("correction", text)
        scripts.append(script)
    expected = {(r.record_id, r.to_json()) for r in known_of(*scripts)}
    dice.shuffle(scripts)
    assert {(r.record_id, r.to_json()) for r in known_of(*scripts)} == expected


def session(number: int, corrected: list[tuple[str, str, str]]) -> list[dict[str, Any]]:
    name = f"s{number}"
    contents: list[tuple[str, dict[str, Any]]] = [("message", {"role": "user", "text": "Publish the shop"})]
    for command, signal, text in corrected:
        contents.append(("command_exec", {"command": command, "exit_code": 0}))
        contents.append(("feedback", {"signal": signal, "comment": "" if signal == "negative" else text}))
        contents.append(("message", {"role": "user", "text": text}))
    return [
        event(name, n, at=START - 86_400_000 + number * 60_000 + n * 1_000, event_type=kind, content=content)
        for n, (kind, content) in enumerate(contents)
    ]


signals = st.sampled_from(["correction", "negative", "positive"])


@settings(max_examples=15)
@given(
    st.lists(st.lists(st.tuples(targets, signals, words), max_size=3), min_size=1, max_size=4),
    st.integers(0, 2**32),
)
def test_through_both_stages_sessions_that_come_interleaved_leave_the_same(
    sessions: list[list[tuple[str, str, str]]], seed: int
) -> None:
    dice = random.Random(seed)
    made = [session(n, corrected) for n, corrected in enumerate(sessions)]
    one = known(evidence_logs(events_log([e for own in made for e in own]).values()))
    other = known(evidence_logs(events_log(interleaved(made, dice)).values(), dice=dice))
    assert one == other


def test_late_feedback_on_a_closed_segment_is_a_correction_too() -> None:
    log = session(0, [])
    log.append(event("s0", 1, at=START - 86_300_000, event_type="command_exec", content={"command": "git push -f"}))
    log.append(event("s0", 2, at=START - 80_000_000, event_type="message", content={"role": "user", "text": "Book it"}))
    told = {"signal": "correction", "comment": "never force a push", "target_event_id": log[1]["event_id"]}
    log.append(event("s0", 3, at=START - 79_000_000, event_type="feedback", content=told))
    found = known(evidence_logs(events_log(log).values()))
    assert [r["text"] for r in found.values() if "correction" in r["pattern"]] == [
        "user on git push: never force a push"
    ]


@pytest.mark.parametrize(
    "comment",
    [
        "hidden tests: not resolved", "not helpful", "Wrong answer.", "rating: bad", "too slow.", "👎", "no",
        "nicht hilfreich", "please continue",
        "No es útil", "役に立ちません。", "没有帮助", "what are you doing...??", "Exit code 1\nFAIL TestTotals",
        "You also said above:\n> the totals are done", "what does the linter say now?", "was macht der Branch da?",
    ],
)  # fmt: skip
def test_a_verdict_that_does_not_say_what_to_do_is_no_correction(comment: str) -> None:
    script = pushing()
    script.feedback("negative", comment)
    assert known_of(script) == []


@pytest.mark.parametrize(
    "comment",
    [
        "not helpful: rebase on main first", "Wrong. Use a branch.", "can't we use a branch instead?",
        "Falsch, nimm einen Branch", "ブランチを使ってください。", "用分支，不要直接推送",
        "any chance of one branch for all of it?", "should this go to a branch first?", "on the same branch, yeah?",
        "Sollte das nicht auf einen Branch?", "¿No debería ir a una rama?", "Il n'y a pas un moyen plus simple ?",
        "Não deveria ir para um branch?", "もっと簡単な方法はありますか？", "有没有办法先合并？",
    ],
)  # fmt: skip
def test_feedback_that_says_what_to_do_differently_is_a_correction(comment: str) -> None:
    script = pushing()
    script.feedback("negative", comment)
    assert [record.body["said"] for record in known_of(script)] == [comment]
