"""State of another format: migrated as a whole where a table of steps says how, and else named and never guessed at."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.stages.executor import Executor
from hmx_pipeline.stages.fold import POSITION_KEY, Fold
from hmx_pipeline.stages.pattern_state import PatternState
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.stages.sealed_decisions import sealed_key
from hmx_pipeline.stages.state_formats import FORMATS, STATE_FORMAT, Formats, UnreadableStateError
from tests.support.inprocess import events_log, evidence_logs, sessions_fold
from tests.support.records import LogRecord
from tests.support.sessions import interleaved, session

EVENTS = events_log(interleaved([session(number) for number in range(4)], 1), partitions=1)[0]
EVIDENCE = evidence_logs([EVENTS], partitions=1)[0]
STAGES: dict[str, tuple[Callable[[], Fold], list[LogRecord]]] = {
    "sessions": (sessions_fold, EVENTS),
    "patterns": (PatternsFold, EVIDENCE),
}
PREFIXES = [("sessions", prefix) for prefix in "swegzy!"] + [("patterns", prefix) for prefix in "mpb!"]
State = dict[str, bytes | None]


def folded(stage: str, formats: Formats = FORMATS) -> tuple[State, Executor, list[LogRecord]]:
    """The state after half of the log, who has folded it, and the rest of the log."""
    new_fold, records = STAGES[stage]
    executor = Executor(new_fold(), 0, formats=formats)
    half = len(records) // 2
    effects = executor.run(records[:half])
    return {**effects.changes, POSITION_KEY: executor.position_record(half, "id", ())}, executor, records[half:]


def outputs(executor: Executor, records: list[LogRecord]) -> list[tuple[object, ...]]:
    return [(it.topic, it.partition, it.key, it.value) for it in executor.run(records).outputs]


def wrapped(_: str, value: bytes) -> bytes:
    return msgspec.json.encode({"in": msgspec.Raw(value)})


class Wrapped(msgspec.Struct):
    within: msgspec.Raw = msgspec.field(name="in")


def unwrapped(_: str, value: bytes) -> bytes:
    return bytes(msgspec.json.decode(value, type=Wrapped).within)


@pytest.mark.parametrize("stage", STAGES)
def test_a_state_of_an_older_format_goes_on_where_it_was_and_says_what_is_to_be_rewritten(stage: str) -> None:
    """Two steps: what the older release wrapped is unwrapped, what neither touches stays the same bytes."""
    prefix = "s" if stage == "sessions" else "m"
    state, before, rest = folded(stage, Formats(oldest=STATE_FORMAT - 2))
    old = {key: wrapped(key, value) if key[0] == prefix and value else value for key, value in state.items()}
    steps = ({"z": unwrapped}, {prefix: unwrapped})
    after = Executor(STAGES[stage][0](), 0, formats=Formats(STATE_FORMAT - 2, steps))
    position = after.restore(old.items())
    assert position is not None
    assert after.migrated == {key: value for key, value in state.items() if key[0] == prefix and value}
    assert b'"format":%d' % STATE_FORMAT in after.position_record(position.position, "id", ())
    assert outputs(after, rest) == outputs(before, rest)


def test_a_pattern_that_the_release_before_has_marked_as_claimed_is_read() -> None:
    state, _, _ = folded("patterns", Formats(6))
    key, value = next((key, value) for key, value in state.items() if key[0] == "p" and value)
    after = Executor(PatternsFold(), 0)
    after.restore({**state, key: b'{"claimed":true,' + value[1:]}.items())
    assert after.migrated[key] == value


def test_what_the_release_before_left_of_a_decision_on_what_is_gone_is_sealed() -> None:
    state, _, rest = folded("patterns", Formats(6))
    key = "p/acme/failure_playbook%2Foak"
    after = Executor(PatternsFold(), 0)
    after.restore({**state, key: PatternState(archived="so").to_json()}.items())
    changes = after.run(rest[:1]).changes
    assert changes[key] is None
    assert changes[sealed_key(key)] is not None


def test_a_step_can_take_a_record_away() -> None:
    state, _, _ = folded("sessions")
    after = Executor(sessions_fold(), 0, formats=Formats(STATE_FORMAT, ({"e": lambda _key, _value: None},)))
    after.restore(state.items())
    gone = {key for key in state if key[0] == "e"}
    assert gone
    assert after.migrated == dict.fromkeys(gone)
    assert not after.journals


def test_this_releases_own_state_is_not_rewritten() -> None:
    state, _, _ = folded("patterns")
    after = Executor(PatternsFold(), 0)
    after.restore(state.items())
    assert not after.migrated


@pytest.mark.parametrize(
    ("found", "says"),
    [(STATE_FORMAT + 1, "a newer release has written it"), (FORMATS.oldest - 1, f"its format is {FORMATS.oldest - 1}")],
)
def test_a_format_that_no_step_leads_from_is_unreadable_and_says_which_it_is(found: int, says: str) -> None:
    state, _, _ = folded("sessions", Formats(found))
    with pytest.raises(UnreadableStateError, match=says) as told:
        Executor(sessions_fold(), 0).restore(state.items())
    assert told.value.key == POSITION_KEY


def test_state_without_its_position_is_unreadable() -> None:
    state, _, _ = folded("sessions")
    del state[POSITION_KEY]
    with pytest.raises(UnreadableStateError, match="no position record"):
        Executor(sessions_fold(), 0).restore(state.items())


def test_a_step_that_fails_names_its_record() -> None:
    state, _, _ = folded("sessions")
    with pytest.raises(UnreadableStateError, match="migrated") as told:
        Executor(sessions_fold(), 0, formats=Formats(STATE_FORMAT, ({"s": unwrapped},))).restore(state.items())
    assert told.value.key.startswith("s/")


def damaged(value: bytes, how: str, noise: bytes) -> bytes:
    return {"truncated": value[: len(value) // 2], "random": b"\xff" + noise, "empty": b"", "other": b"[[" * 5_000}[how]


@pytest.mark.parametrize(("stage", "prefix"), PREFIXES)
@given(data=st.data())
def test_whatever_stands_in_a_damaged_record_it_is_named_and_nothing_else_is_raised(
    stage: str, prefix: str, data: st.DataObject
) -> None:
    state, _, _ = folded(stage)
    keys = sorted(key for key, value in state.items() if key[0] == prefix and value) or [f"{prefix}/acme/x/0/e"]
    key = data.draw(st.sampled_from(keys))
    how = data.draw(st.sampled_from(["truncated", "random", "empty", "other"]))
    state[key] = damaged(state.get(key) or b"{}", how, data.draw(st.binary(max_size=40)))
    with pytest.raises(UnreadableStateError) as told:
        Executor(STAGES[stage][0](), 0).restore(state.items())
    assert told.value.key == key


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("key", ["q/acme/x", "", "\udcff", "w/acme"])
def test_a_key_that_no_fold_writes_is_named_and_not_passed_over(stage: str, key: str) -> None:
    state, _, _ = folded(stage)
    state[key] = b"{}"
    with pytest.raises(UnreadableStateError) as told:
        Executor(STAGES[stage][0](), 0).restore(state.items())
    assert told.value.key == key
