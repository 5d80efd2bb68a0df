"""The executor's laws, on a small fold of its own: timers, overlays, poison, batches, restore."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.rejections import Reason, Rejection
from hmx_pipeline.stages.executor import Executor
from hmx_pipeline.stages.fold import Output, Record, Tx
from hmx_pipeline.stages.state_formats import UnreadableStateError
from tests.support.records import LogRecord


class Entry(msgspec.Struct, frozen=True):
    count: int
    due: int


class CountingFold:
    """Counts records per key; a key is reported 5 ms after it was first seen. `boom` raises, `once` raises once."""

    at_rest = ""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}
        self.raised = False

    def decode(self, key: str, value: bytes) -> Any:
        return msgspec.json.decode(value, type=Entry)

    def encode(self, key: str, value: Any) -> bytes:
        return msgspec.json.encode(value)

    def deadline(self, key: str, value: Entry) -> int | None:
        return value.due if value.due >= 0 else None

    def changed(self, key: str, old: Entry | None, new: Entry | None) -> None:
        if new is None:
            del self.seen[key]
        else:
            self.seen[key] = new.count

    unfinished = None

    def fold(self, tx: Tx, record: Record) -> None:
        key = (record.value or b"").decode()
        entry: Entry | None = tx.get(key)
        tx.put(key, Entry(entry.count + 1, entry.due) if entry else Entry(1, tx.clock + 5))
        tx.emit(Output("seen", 0, key.encode(), b"%d" % tx.offset, ()))
        tx.count("seen")
        if key == "boom" or (key == "once" and not self.raised):
            self.raised = True
            raise ValueError("this record cannot be folded")

    def due(self, tx: Tx, key: str, value: Entry) -> None:
        tx.emit(Output("due", 0, key.encode(), b"%d at %d" % (value.count, value.due), ()))
        tx.put(key, Entry(value.count, -1) if value.count < 3 else None)

    def go_on(self, tx: Tx) -> None:
        """Nothing here is done in turns."""

    def reject(self, tx: Tx, record: Record, rejection: Rejection) -> None:
        tx.emit(Output("dead", 0, record.value, str(rejection.reason).encode(), ()))


def records(*items: tuple[int, str]) -> list[LogRecord]:
    return [LogRecord(0, offset, at, None, value.encode()) for offset, (at, value) in enumerate(items)]


def outputs(executor: Executor, batch: list[LogRecord]) -> list[tuple[str, bytes | None, bytes | None]]:
    return [(output.topic, output.key, output.value) for output in executor.run(batch).outputs]


def test_what_is_due_fires_before_the_record_in_deadline_then_key_order() -> None:
    executor = Executor(CountingFold(), 0)
    out = outputs(executor, records((0, "b"), (0, "a"), (1, "c"), (6, "d")))
    assert [(topic, key) for topic, key, _ in out] == [
        ("seen", b"b"), ("seen", b"a"), ("seen", b"c"),
        ("due", b"a"), ("due", b"b"), ("due", b"c"),
        ("seen", b"d"),
    ]  # fmt: skip


def test_the_clock_never_goes_back() -> None:
    executor = Executor(CountingFold(), 0)
    executor.run(records((10, "a"), (3, "b")))
    assert executor.clock == 10
    assert executor.next_due == 15


def test_a_poison_record_is_rejected_and_leaves_nothing_of_itself() -> None:
    fold = CountingFold()
    executor = Executor(fold, 0)
    effects = executor.run(records((0, "a"), (0, "boom"), (0, "b")))
    assert [(o.topic, o.key) for o in effects.outputs] == [("seen", b"a"), ("dead", b"boom"), ("seen", b"b")]
    assert effects.outputs[1].value == str(Reason.POISON).encode()
    assert "boom" not in executor.state
    assert "boom" not in fold.seen
    assert effects.counts["seen"] == 2


def test_an_exception_that_does_not_come_again_is_no_poison() -> None:
    assert outputs(Executor(CountingFold(), 0), records((0, "once"))) == [("seen", b"once", b"0")]


@pytest.mark.parametrize("error", [MemoryError, OSError])
def test_errors_of_the_machine_are_never_taken_for_poison(error: type[Exception]) -> None:
    class Failing(CountingFold):
        def fold(self, tx: Tx, record: Record) -> None:
            raise error("the machine, not the record")

    with pytest.raises(error):
        Executor(Failing(), 0).run(records((0, "a")))


items = st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["a", "b", "c", "d", "boom"])), max_size=25)


@given(items, st.data())
def test_however_the_records_are_cut_and_whenever_the_state_is_restored_the_outputs_are_the_same(
    log: list[tuple[int, str]], data: st.DataObject
) -> None:
    whole = Executor(CountingFold(), 0)
    expected = outputs(whole, records(*log))
    executor = Executor(CountingFold(), 0)
    state_topic: list[tuple[str, bytes | None]] = []
    got: list[tuple[str, bytes | None, bytes | None]] = []
    rest = records(*log)
    while rest:
        n = data.draw(st.integers(1, len(rest)))
        batch, rest = rest[:n], rest[n:]
        effects = executor.run(batch)
        got += [(output.topic, output.key, output.value) for output in effects.outputs]
        state_topic += [*effects.changes.items(), ("!", executor.position_record(n, "id", ()))]
        if data.draw(st.booleans()):
            executor = Executor(CountingFold(), 0)
            executor.restore(state_topic)
    assert got == expected
    assert executor.state == whole.state
    assert executor.clock == whole.clock
    assert executor.counts == whole.counts


@pytest.mark.parametrize(
    "record",
    [("!", b'{"position":1,"clock":1,"topic_id":"t","counts":{},"format":0}'), ("!", b"?"), ("a", b'{"count":"x"}')],
)
def test_state_that_another_version_wrote_is_refused_and_not_guessed_at(record: tuple[str, bytes]) -> None:
    with pytest.raises(UnreadableStateError):
        Executor(CountingFold(), 0).restore([record])
