"""What segments say later than they were first asked, and how large a session's state becomes meanwhile."""

from typing import Any

import pytest

from hmx_pipeline.contracts.limits import ID_BYTES, OUTPUT_BYTES, RECENT_IDS, SEGMENT_EVENTS, SEGMENT_IDLE_MS, STATED_MS
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.stages.executor import Executor
from hmx_pipeline.stages.segmenting import LATE_FEEDBACK
from hmx_pipeline.stages.session_state import encode_state
from tests.support.inprocess import Ran, barrier_record, run, sessions_fold
from tests.support.records import START_MS, LogRecord, event, log

WISH = {"role": "user", "text": "Please deploy the payments service to staging"}
TOOL = {"tool_name": "build_image", "call_id": "1", "success": True}


DONE = {"command": "deploy billing --to staging", "exit_code": 0}


def barred(*events: dict[str, Any]) -> Ran:
    """The events, each followed by a barrier."""
    records: list[LogRecord] = []
    for n, item in enumerate(events):
        records += [
            LogRecord(0, 2 * n, START_MS + n, None, log([(0, item)])[0].value),
            barrier_record(n, offset=2 * n + 1, barrier_id=str(n)),
        ]
    return run(sessions_fold, records)


def test_a_withdrawal_has_the_id_of_what_it_withdraws_also_where_clocks_run_backwards() -> None:
    """What the segment was about is told by its second message, and it has another strategy."""
    other = {"role": "user", "text": "And rotate the database credentials of the billing service"}
    result = barred(
        event(sequence=0, content={"role": "user", "text": "The payments service at night"}),
        event(sequence=1, event_type="command_exec", content=DONE),
        event(sequence=2, content=other, timestamp=format_ms(START_MS - 60_000)),
    )
    told = [((c["pattern_type"], c["pattern_key"]), c) for c in result.contributions]
    said = {pattern: c["contribution_id"] for pattern, c in told if not c["withdrawn"]}
    withdrawn = {pattern: c["contribution_id"] for pattern, c in told if c["withdrawn"]}
    assert withdrawn
    assert withdrawn.items() <= said.items()


def test_late_events_do_not_make_a_session_grow() -> None:
    opened = (0, event(sequence=10**6, content=WISH))
    passed = (6_000, event(sequence=10**6 + 1, event_type="tool_result", content=TOOL))
    late = [(6_001 + n, event(sequence=n, at=START_MS)) for n in range(3 * SEGMENT_EVENTS)]
    result = run(sessions_fold, log([opened, passed, *late]))
    assert result.counts["released_late"] == len(late)
    assert len([key for key in result.state if key.startswith("e/")]) <= SEGMENT_EVENTS + RECENT_IDS


def test_feedback_that_keeps_coming_does_not_make_a_closed_segment_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmx_pipeline.stages.segmenting.SEGMENT_EVENTS", 8)
    verdicts = ["negative"] * (2 * LATE_FEEDBACK) + ["positive"]
    pause = 2 * SEGMENT_IDLE_MS
    later = START_MS + pause
    events = [
        event(sequence=0, content=WISH),
        event(sequence=1, event_type="command_exec", content=DONE),
        event(sequence=2, at=later, content={"role": "user", "text": "Now roll back the search service"}),
        *(
            event(sequence=3 + n, at=later, event_type="feedback", content={"signal": signal, "target_event_id": "s-1"})
            for n, signal in enumerate(verdicts)
        ),
    ]
    result = run(sessions_fold, log([(n if n < 2 else pause + n, item) for n, item in enumerate(events)]))
    assert len(result.state["g/acme/s/000000000000"].segment.steps) == 8 + LATE_FEEDBACK
    assert result.counts["feedback_replaced"] > 0
    schema = [c for c in result.contributions if c["pattern_type"] == "run"]
    spoken = [c["outcome"] for c in schema if c["segment_id"] == "s-0"]
    assert spoken == ["success", *["failure"] * (2 * LATE_FEEDBACK), "success"]


def test_ids_as_long_as_an_event_may_be_make_no_record_that_the_topics_refuse() -> None:
    long = "/" * (ID_BYTES - 2)
    events = [event(sequence=0, content=WISH)] + [
        event(sequence=n, event_id=f"{n}{long}", event_type="tool_result", content={**TOOL, "tool_name": f"tool_{n}"})
        for n in range(1, 14)
    ]
    at = 2 * SEGMENT_IDLE_MS
    later = event(sequence=14, at=START_MS + at, content={"role": "user", "text": "Now roll back the search service"})
    result = run(sessions_fold, [*log([*enumerate(events), (at, later)]), barrier_record(at, offset=15)])
    assert result.counts["released"] == 15
    assert not {"contribution_too_large", "segment_out_of_reach"} & result.counts.keys()
    sizes = [len(output.key or b"") + len(output.value or b"") for output in result.outputs]
    sizes += [len(key) + len(encode_state(key, value)) for key, value in result.state.items()]
    assert max(sizes) < OUTPUT_BYTES


def test_segments_that_one_timer_begins_and_ends_have_only_steps_of_their_own() -> None:
    pause = 2 * SEGMENT_IDLE_MS
    wishes = ["deploy the payments service", "rotate the database credentials", "roll back the search service"]
    events = [
        event(sequence=5 + n, at=START_MS + (n - 3) * pause, content={"role": "user", "text": f"Please {wish}"})
        for n, wish in enumerate(wishes)
    ]
    target = {"signal": "negative", "target_event_id": "elsewhere"}
    events.append(event(sequence=9, at=START_MS - pause, event_type="feedback", content=target))
    result = run(sessions_fold, log([*enumerate(events), (6_000, b"no JSON")]))  # behind a gap, and out at once
    segments = {key: state.segment for key, state in result.state.items() if key.startswith("g/") and state.segment}
    assert [[step.index for step in segment.steps] for _, segment in sorted(segments.items())] == [[0], [1]]


def test_a_segment_that_states_nothing_writes_no_record_of_it() -> None:
    """Most messages state nothing, and each would cost a record in the state topic."""
    said = ["Where is the log?", "And the other log?", "Our warehouse is BigQuery", "Thanks"]
    executor = Executor(sessions_fold(), 0)
    events = [event(sequence=n, content={"role": "user", "text": text}) for n, text in enumerate(said)]
    changed = [executor.run([record]).changes for record in log([(n * 1_000, item) for n, item in enumerate(events)])]
    assert [[key[0] for key in changes if key[0] == "g"] for changes in changed] == [[], [], [], ["g"]]


@pytest.mark.parametrize("kind", ["observation", "message"])
def test_what_a_client_asserts_does_not_wait_for_the_end_of_its_segment(kind: str) -> None:
    fact = "The staging registry is registry.internal:5000."
    told = {"event_type": "observation", "content": {"text": fact, "kind": "fact"}}
    if kind == "message":
        told = {"content": {"role": "system", "text": "memories"}, "metadata": {"extractedMemories": [fact]}}
    result = run(sessions_fold, log([(0, event(sequence=0, **told)), (2 * STATED_MS, event("another", 0))]))
    assert [c["pattern_type"] for c in result.contributions if c["session_id"] == "s"] == ["fact"]
