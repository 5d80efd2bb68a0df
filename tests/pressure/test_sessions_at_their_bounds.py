"""More sessions than a partition remembers, and larger events behind a gap than a window holds."""

import random

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.limits import MB, WAITING_BYTES, WINDOW_MS
from hmx_pipeline.stages.executor import Executor
from hmx_pipeline.stages.fair_shares import FairShares
from hmx_pipeline.stages.state_tx import STALE_TIMERS, Tx
from tests.support.inprocess import Ran, run, sessions_fold
from tests.support.records import START_MS, LogRecord, event, log
from tests.support.sessions import interleaved, session


def live(ran: Ran) -> set[str]:
    return {key for key in ran.state if key.startswith("s/")}


def crowd(seed: int) -> list[LogRecord]:
    """Forty sessions, some with a gap that never closes, a few at a time."""
    dice = random.Random(seed)
    sessions = [session(n) for n in range(40)]
    for events in sessions[::5]:
        del events[3]
    waves = [interleaved(sessions[n : n + 8], dice.randrange(2**32)) for n in range(0, 40, 8)]
    return log([(10 * at, item) for at, item in enumerate(item for wave in waves for item in wave)])


def test_one_session_more_than_a_partition_remembers_ends_the_longest_silent_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unbounded = run(sessions_fold, crowd(1))
    monkeypatch.setattr("hmx_pipeline.stages.session_releasing.SESSIONS_LIVE", 10)
    bounded = run(sessions_fold, crowd(1))
    assert len(live(unbounded)) == 40
    assert len(live(bounded)) == 10 < len(live(unbounded))
    assert bounded.counts["session_forgotten_early"] == 30
    assert "session_forgotten" not in bounded.counts
    assert {f"s/acme/session-{n}" for n in range(32, 40)} <= live(bounded)
    released = [episode["id"] for episode in bounded.episodes]
    assert len(released) == len(set(released)) == len(crowd(1)) - sum(key.startswith("w/") for key in bounded.state)
    forgotten = {f"session-{n}" for n in range(40) if f"s/acme/session-{n}" not in live(bounded)}
    assert {contribution["session_id"] for contribution in bounded.contributions} >= forgotten


def test_who_is_forgotten_does_not_depend_on_batches_and_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmx_pipeline.stages.session_releasing.SESSIONS_LIVE", 10)
    for seed in range(3):
        dice, whole = random.Random(seed), run(sessions_fold, crowd(seed))
        cut = run(sessions_fold, crowd(seed), cut=lambda left, dice=dice: dice.randint(1, min(left, 40)), restores=True)
        assert cut.outputs == whole.outputs
        assert cut.state == whole.state


def two_tenants(seed: int) -> list[LogRecord]:
    """Three sessions of `quiet` that say nothing any more, then forty of `loud`, some with a gap that never closes."""
    dice = random.Random(seed)
    quiet = [event(f"quiet-{n}", k, tenant_id="quiet") for n in range(3) for k in (0, 2)]
    loud = [event(f"loud-{n}", k, tenant_id="loud") for n in range(40) for k in ((0, 1, 3) if n % 5 == 0 else (0, 1))]
    return log([(10 * at, item) for at, item in enumerate([*quiet, *dice.sample(loud, len(loud))])])


def test_a_tenant_at_its_share_takes_no_other_tenants_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmx_pipeline.stages.session_releasing.SESSIONS_LIVE", 10)
    for seed in range(3):
        ran = run(sessions_fold, two_tenants(seed))
        assert {f"s/quiet/quiet-{n}" for n in range(3)} <= live(ran), "silent longest, and no reason to go"
        assert len(live(ran)) == 10
        dice = random.Random(seed)
        cut = run(
            sessions_fold, two_tenants(seed), cut=lambda left, dice=dice: dice.randint(1, min(left, 9)), restores=True
        )
        assert (cut.outputs, cut.state) == (ran.outputs, ran.state)


def test_a_new_tenant_has_a_place_though_another_has_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmx_pipeline.stages.session_releasing.SESSIONS_LIVE", 10)
    loud = [event(f"loud-{n}", 0, tenant_id="loud") for n in range(20)]
    late = [event(f"late-{n}", 0, tenant_id="late") for n in range(20)]
    ran = run(sessions_fold, log([(n, item) for n, item in enumerate([*loud, *late])]))
    assert len(live(ran)) == 10
    assert sum(key.startswith("s/late/") for key in live(ran)) == 5, "half of them, and then its own make room"


def test_all_that_waits_in_a_partition_is_bounded_and_who_has_most_of_it_waits_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hmx_pipeline.stages.session_releasing.PARTITION_WAITING_BYTES", MB)
    text = {"role": "user", "text": "x" * 40_000}
    quiet = [event("quiet", n, tenant_id="quiet", content=text) for n in range(1, 5)]
    loud = [event(f"loud-{n}", k, tenant_id="loud", content=text) for n in range(20) for k in range(1, 6)]
    order = [*quiet, *random.Random(7).sample(loud, len(loud))]
    records = log([(n, item) for n, item in enumerate(order)])
    executor, ids = Executor(sessions_fold(), 0), []
    for record in records:
        ids += [orjson.loads(output.value or b"")["id"] for output in executor.run([record]).outputs]
        waiting = {key: value for key, value in executor.state.items() if key.startswith("w/")}
        assert sum(len(memoryview(value.event)) for value in waiting.values()) <= MB
        assert sum(key.startswith("w/quiet/") for key in waiting) == min(4, record.offset + 1)
    assert executor.counts["window_full"] > 0
    assert len(ids) == len(set(ids))
    assert len(ids) + len(waiting) == len(order)
    whole = run(sessions_fold, records)
    cut = run(sessions_fold, records, cut=lambda left: min(left, 3), restores=True)
    assert (cut.outputs, cut.state) == (whole.outputs, whole.state)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(-5, 9)), max_size=300))
def test_who_has_most_is_who_has_most(changes: list[tuple[str, int]]) -> None:
    shares, plain = FairShares(), dict.fromkeys("abcdef", 0)
    for name, change in changes:
        by = max(change, -plain[name])
        plain[name] += by
        shares.add(name, by)
        assert shares.total == sum(plain.values())
        assert [shares.of(each) for each in plain] == list(plain.values())
        if shares.total:
            assert shares.most() == min(plain, key=lambda each: (-plain[each], each))


@pytest.mark.parametrize("strict", [False, True])
def test_a_window_holds_no_more_bytes_than_it_may_and_its_events_still_come_out_in_order(strict: bool) -> None:
    text = "x" * (MB // 3)
    large = [event("s", n, content={"text": text}) for n in range(1, 81)]
    small = [event("s", n) for n in range(81, 100)]
    order = [*random.Random(5).sample([*large, *small], 99), event("s", 0)]
    executor, held, ids = Executor(sessions_fold(strict=strict), 0), 0, []
    for record in log([(n, item) for n, item in enumerate(order)]):
        ids += [orjson.loads(output.value or b"")["id"] for output in executor.run([record]).outputs]
        waiting = [value for key, value in executor.state.items() if key.startswith("w/")]
        held = max(held, sum(len(memoryview(value.event)) for value in waiting))
    assert WAITING_BYTES / 2 < held <= WAITING_BYTES
    assert executor.counts["window_full"] > 0
    assert len(ids) == len(set(ids))
    assert len(ids) + sum(key.startswith("w/") for key in executor.state) == len(order)


class Deadlines:
    """State whose values are their own deadlines."""

    at_rest = ""

    def decode(self, key: str, value: bytes) -> int:
        return int(value)

    def encode(self, key: str, value: int) -> bytes:
        return b"%d" % value

    def deadline(self, key: str, value: int) -> int:
        return value

    def changed(self, key: str, old: int | None, new: int | None) -> None:
        """Nothing follows."""


def test_timers_of_what_is_gone_do_not_pile_up() -> None:
    tx = Tx(0, Deadlines())
    tx.put("stays", 2)
    for number in range(10 * STALE_TIMERS):
        tx.begin(number)
        tx.put(f"goes {number}", 1_000_000 + number)
        tx.put(f"goes {number}", None)
    assert len(tx.timers) <= STALE_TIMERS + 3
    tx.clock = 2_000_000
    assert [tx.pop_due(), tx.pop_due()] == [("stays", 2), None]


def test_what_came_behind_a_gap_while_the_clock_was_ahead_comes_out_when_append_times_are_there_again() -> None:
    ahead = 600_000
    gap = [(ahead, event("gap", n)) for n in (0, 2)]
    others = [(1_000 * n, event("plain", n)) for n in range(1 + (ahead + WINDOW_MS) // 1_000)]
    executor, out = Executor(sessions_fold(), 0), {}
    for record in log([*gap, *others]):
        for output in executor.run([record]).outputs:
            episode = orjson.loads(output.value or b"")
            out[episode["sessionId"], episode["metadata"]["hmx"]["sequence"]] = record.timestamp
    assert all(out["plain", n] == START_MS + at for n, (at, _) in enumerate(others))
    assert out["gap", 2] == START_MS + ahead + WINDOW_MS
