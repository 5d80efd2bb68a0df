"""The sessions stage against a plain reference written from the specification: every outcome, every release, in order.

Small random logs, which shrink to something readable; and long ones as many producers make them, on an injected clock.
"""

import random
from collections import Counter
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.contracts.headers import KIND, ORIGIN_OFFSET, header
from pipeline.contracts.instants import format_ms
from pipeline.contracts.limits import RECENT_IDS, SESSION_FORGOTTEN_MS, WAITING_EVENTS, WINDOW_MS
from pipeline.intake.control import rerouted_from
from pipeline.topology import EPISODES
from tests.support.inprocess import Cut, Ran, run, sessions_fold
from tests.support.observed import Observed, differences, totals
from tests.support.records import START_MS, LogRecord, event
from tests.support.reference import Entry, Prediction, Rules, predict
from tests.support.traffic import Log, control, controls, lay_out, returning, traffic

PARTITIONS = 4
COUNTED = {"released", "released_late", "duplicate", "rejected", "rerouted", "control"}
ROWS = pytest.mark.requirement(
    "E-05", "E-08", "E-24", "E-25", "E-26", "E-28", "X03", "X04", "X29", "Y01", "Y11", "Y12", "Y13", "Y14", "Y17"
)
BOTH = pytest.mark.parametrize("strict", [False, True], ids=["eager", "strict"])


def check(log: Log, rules: Rules, partition: int = 0, cut: Cut | None = None) -> Prediction:
    """Both on the same log; what they do not agree on fails."""
    predicted = predict(log.entries, partition, rules)
    ran = run(lambda: sessions_fold(rules.partitions, strict=rules.strict), log.records, cut, restores=cut is not None)
    observed = Observed()
    for output in ran.on(EPISODES):
        observed.episode(output.value)
    for letter in ran.dead:
        observed.dead_letter(letter.headers)
    origins = [place[1] for append in ran.appends if (place := rerouted_from(append.headers)) is not None]
    observed.settle(log.entries, waiting_offsets(ran), origins)
    assert not differences(predicted, observed, log.entries)
    counts = {name: n for name, n in ran.counts.items() if name.split(".")[0] in COUNTED}
    assert counts == totals(predicted.outcomes.values())
    values = {record.offset: record.value for record in log.records}
    assert [
        (offset, append.partition) for offset, append in zip(origins, ran.appends, strict=True)
    ] == predicted.rerouted
    assert [values[offset] for offset in origins] == [append.value for append in ran.appends]
    check_barriers(log, ran)
    return predicted


def check_barriers(log: Log, ran: Ran) -> None:
    """A barrier passes once: after everything before it, and no later than a window."""
    released: dict[int, int] = {}
    passed: dict[int, int] = {}
    for place, output in enumerate(ran.outputs):
        if output.topic == EPISODES:
            released[int(header(output.headers, ORIGIN_OFFSET) or b"")] = place
        elif header(output.headers, KIND) == b"barrier":
            offset = int(orjson.loads(output.value or b"")["barrier_id"])
            assert offset not in passed
            passed[offset] = place
    clock, due = 0, {}
    for record in log.records:
        clock = max(clock, record.timestamp)
        if b'"x-hmx-barrier"' in (record.value or b"") and record.headers:
            due[record.offset] = clock + WINDOW_MS
    for offset, place in passed.items():
        assert [before for before in released if before < offset and released[before] > place] == []
        assert [before for before in waiting_offsets(ran) if before < offset] == []
    assert [offset for offset, until in due.items() if until <= clock and offset not in passed] == []


def waiting_offsets(ran: Ran) -> list[int]:
    return [value.offset for key, value in ran.state.items() if key.startswith("w/")]


def small(item: tuple[Any, ...]) -> tuple[int, dict[str, Any] | str]:
    step, kind, session, sequence, instant, variant, other = item
    if kind != "event":
        return step, kind
    event_id = f"{sequence}.{instant}{variant}"
    made = event(session, sequence, event_id=event_id, content={"other": other})
    made["timestamp"] = format_ms(START_MS + instant)
    return step, made


STEPS = st.sampled_from([0, 0, 1, 1_000, 1_000, WINDOW_MS - 1, WINDOW_MS, -1, -3_000, SESSION_FORGOTTEN_MS])
KINDS = st.sampled_from(["event"] * 12 + ["tick", "barrier"])
SMALL = st.tuples(
    STEPS, KINDS, st.sampled_from(["a", "a", "a-b"]), st.integers(0, 4), st.integers(0, 4),
    st.sampled_from(["", "", "~"]), st.sampled_from([False] * 7 + [True]),
).map(small)  # fmt: skip


def small_log(items: list[tuple[int, dict[str, Any] | str]]) -> Log:
    log, at = Log([], []), 0
    for offset, (step, item) in enumerate(items):
        at += step
        if isinstance(item, str):
            log.records.append(control(item, at, 0, offset))
            log.entries.append(Entry(offset, START_MS + at, control=True))
        else:
            log.records.append(LogRecord(0, offset, START_MS + at, b"any", orjson.dumps(item)))
            log.entries.append(Entry(offset, START_MS + at, item))
    return log


@ROWS
@BOTH
@settings(max_examples=5 * settings().max_examples)
@given(items=st.lists(SMALL, max_size=14))
def test_any_small_log_has_the_outcomes_and_the_order_of_the_specification(
    strict: bool, items: list[tuple[int, dict[str, Any] | str]]
) -> None:
    check(small_log(items), Rules(strict=strict))


@ROWS
@BOTH
@given(items=st.lists(SMALL, max_size=14), cuts=st.randoms(use_true_random=False))
def test_it_has_them_however_the_log_is_cut_and_the_state_restored(
    strict: bool, items: list[tuple[int, dict[str, Any] | str]], cuts: random.Random
) -> None:
    check(small_log(items), Rules(strict=strict), cut=lambda left: cuts.randint(1, left))


@ROWS
@BOTH
@pytest.mark.parametrize("seed", range(4))
def test_hundreds_of_sessions_have_them(seed: int, strict: bool) -> None:
    dice = random.Random(seed)
    sent = sorted([*traffic(seed, 250, 60, long=2), *controls(dice, 70, 40)], key=lambda record: record.at)
    if seed % 4 == 3:
        sent = returning(dice, sent)
    seen: Counter[str] = Counter()
    for partition, log in lay_out(sent, PARTITIONS, dice).items():
        seen += Counter(check(log, Rules(PARTITIONS, strict), partition).outcomes.values())
    assert {"released", "released_late", "duplicate", "rerouted", "rejected.event_id_reused"} <= seen.keys()


def flood(events: list[dict[str, Any]], then_at: int) -> Log:
    """All within one millisecond, and a tick."""
    return small_log([*((0, item) for item in events), (then_at, "tick")])


@BOTH
@pytest.mark.requirement("E-34")
def test_where_the_window_is_full_the_first_that_waits_goes_out(strict: bool) -> None:
    behind_a_gap = [event(sequence=n) for n in range(1, WAITING_EVENTS + 40)]
    check(flood(behind_a_gap, 1), Rules(strict=strict))
    backwards = [event(sequence=n) for n in range(WAITING_EVENTS + 40, 1, -1)]
    check(flood(backwards, WINDOW_MS), Rules(strict=strict))


@BOTH
@pytest.mark.requirement("Y11")
def test_a_counter_that_starts_over_empties_a_full_window(strict: bool) -> None:
    full = [event(sequence=n, event_id=f"{n}") for n in range(2, WAITING_EVENTS + 2)]
    again = [event(sequence=n, event_id=f"again-{n}", at=START_MS + 10_000_000 + n) for n in range(3)]
    items = [(0, event()), (WINDOW_MS, "tick"), *((0, item) for item in [*full, *again])]
    check(small_log(items), Rules(strict=strict))
    predicted = check(small_log([*items, (WINDOW_MS, "tick")]), Rules(strict=strict))
    assert predicted.releases[-1].run == 1


@BOTH
@pytest.mark.parametrize("between", [RECENT_IDS - 2, RECENT_IDS - 1, RECENT_IDS, 2 * RECENT_IDS])
def test_an_id_is_remembered_for_so_many_releases_and_no_more(strict: bool, between: int) -> None:
    """However long the segment is that it belongs to."""
    events = [event(sequence=n, event_type="command_exec", content={"command": f"c{n}"}) for n in range(between + 2)]
    items = [*((0, item) for item in events), (WINDOW_MS, "tick"), (0, events[1]), (0, events[0]), (0, events[1])]
    predicted = check(small_log(items), Rules(strict=strict))
    kept = "released_late" if between >= RECENT_IDS else "duplicate"
    assert predicted.outcomes[len(events) + 1] == kept
