"""Each person says a word that nobody else says, wherever a word can stand: no answer to another person holds it."""

from collections.abc import Iterator
from itertools import cycle, product
from typing import Any, Final

import orjson
import pytest

from hmx_pipeline.contracts.options import Status
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.store.subject_view import SubjectView
from tests.act.served import learn
from tests.support.memory import Memory
from tests.support.records import START_MS, event

WORDS: Final = {"ann": "zorbium", "bob": "quexil", "carol": "vantrel"}
NOBODY, STRANGER = None, "mallory"
ASKED: Final = (
    "Where is my locker, and what is its code?",
    "What do I have to do before I deploy the ledger service to staging?",
    "Please deploy the ledger service to staging",
    "The deploy fails with cannot open, what now?",
    "Which color did we choose for the logo, and why?",
    "What do you know about me, my report and my preferences?",
    "no, not like that: use another flag",
    "What does {} mean?",
    "What went wrong with {}, and how was it solved?",
    "Always never rule registry desk {}",
    "cannot open {}.conf",
    "apply_manifest --report /home/{}/report",
    "Who prefers the {} theme, and since when?",
    "Which registry do we use, {}.example or another one?",
    "What was said about {} last week?",
)
QUESTIONS: Final = tuple(dict.fromkeys(asked.format(word) for asked, word in product(ASKED, ("it", *WORDS.values()))))


def session(number: int, subject: str, named_at: int) -> list[dict[str, Any]]:
    """One task, in which the subject's word stands in messages, facts, rules, arguments, errors, decisions, results and
    feedback. It is said in the event `named_at` whose session it is, and in no other."""
    word, call = WORDS[subject], {"tool_name": "apply_manifest", "call_id": "1"}
    said: list[tuple[str, dict[str, Any]]] = [
        ("message", {"role": "user", "text": "Please deploy the ledger service to staging"}),
        ("message", {"role": "user", "text": f"My locker code is {word}-17. I prefer the {word} theme."}),
        ("message", {"role": "user", "text": f"Never call the {word} desk at noon. Our registry is {word}.example."}),
        ("tool_call", {**call, "arguments": {"service": "ledger", "report": f"/home/{word}/report"}}),
        ("tool_result", {**call, "success": False, "output": f"cannot open {word}.conf"}),
        ("error", {"error_type": "ConfigError", "message": f"cannot open {word}.conf"}),
        ("message", {"role": "user", "text": f"No, not like that: use the {word} flag."}),
        ("tool_call", {**call, "call_id": "2", "arguments": {"service": "ledger", "report": f"/home/{word}/report"}}),
        ("tool_result", {**call, "call_id": "2", "success": True, "output": f"{word} applied"}),
        ("decision", {"question": "Which color for the logo?", "chosen_option": "blue", "rationale": f"as {word} is"}),
        ("message", {"role": "assistant", "text": f"Done. The {word} report lies in the archive."}),
        ("feedback", {"signal": "positive", "comment": f"thanks, {word}"}),
    ]  # fmt: skip
    at = START_MS - 86_400_000 + number * 600_000
    return [
        event(
            f"{subject}-{number}",
            n,
            timestamp=format_ms(at + 1_000 * n),
            event_type=kind,
            content=content,
            metadata={"user_id": subject} if n == named_at else {},
        )
        for n, (kind, content) in enumerate(said)
    ]


@pytest.fixture(scope="module")
def learnt(redis_url: str) -> Iterator[Memory]:
    memory = Memory(redis_url, "canaries-")
    memory.wipe()
    told = [(n, who, named) for n, (who, named) in enumerate(product(WORDS, (0, 3, 11)))]
    events = [one for number, who, named in told for one in session(number, who, named)]
    memory.write(*learn(events, sharing="subjects"))
    yield memory
    memory.wipe()
    memory.client.close()


def answer(memory: Memory, query: str, subject: str | None, **asked: Any) -> str:
    """What a pack says but for what it repeats of the question."""
    request = {"subject_id": subject, "explain": True, "as_text": True, "include": ["superseded", "archived"], **asked}
    PackRequest.model_validate({"query": query, "tenant_id": "acme", **request})
    pack = orjson.loads(memory.pack(query, **request).to_json())
    del pack["query_context"], pack["assembly_metadata"]["query_classification"]
    return orjson.dumps(pack).decode()


def others(subject: str | None) -> list[str]:
    return [word for who, word in WORDS.items() if who != subject]


@pytest.mark.requirement("Y19")
@pytest.mark.parametrize("subject", [NOBODY, *WORDS, STRANGER])
def test_no_pack_holds_another_persons_word(learnt: Memory, subject: str | None) -> None:
    own = 0
    assert len(QUESTIONS) == 39
    for query, name in zip(QUESTIONS, cycle(("none", "ann-0", "bob-4", "carol-8"))):
        said = answer(learnt, query, subject, session_id=name)
        for word in others(subject):
            assert word not in said, (query, name)
        own += subject in WORDS and WORDS[subject] in said
    assert bool(own) == (subject in WORDS)


@pytest.mark.parametrize("subject", WORDS)
def test_no_record_that_a_bound_key_may_read_holds_another_persons_word(learnt: Memory, subject: str) -> None:
    view, tenant = SubjectView(learnt.store, "acme", subject), learnt.keys.tenant("acme")
    names = {
        kind: [
            key.rpartition(b":")[2].decode()
            for key in learnt.client.scan_iter(match=tenant.root.encode() + b":%b:*" % kind)
        ]
        for kind in (b"event", b"contribution", b"knowledge")
    }
    for kind, read in ((b"event", view.event), (b"contribution", view.contribution), (b"knowledge", view.knowledge)):
        read_of = [found for name in names[kind] if (found := read(name)) is not None]
        assert read_of or kind == b"knowledge"
        said = repr(read_of)
        assert not [word for word in others(subject) if word in said], kind


def test_no_artifact_holds_anybodys_word(learnt: Memory) -> None:
    """They are shared by all, and learnt from what all three did."""
    shared = [one for status in Status for one in learnt.store.all_artifacts("acme", None, status)]
    assert {one["artifact_type"] for one in shared} >= {"task_schema", "failure_playbook"}
    assert not [word for word in WORDS.values() if word in repr(shared)]
