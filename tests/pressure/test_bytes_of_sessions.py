"""What a partition's sessions remember has no more bytes than it may, and who remembers most gives way first."""

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hmx_pipeline.contracts.limits import KB, STEP_TEXT, TRACE_BYTES
from hmx_pipeline.stages.executor import Executor
from hmx_pipeline.stages.session_state import encode_state, tenant_of
from tests.support.inprocess import run, sessions_fold
from tests.support.records import LogRecord, event, log

BOUND = 60 * KB


def sized(session: str, sequence: int, tenant: str, size: int, **fields: Any) -> dict[str, Any]:
    content = fields.pop("content", {"role": "user", "text": "x" * size})
    return event(session, sequence, tenant_id=tenant, content=content, **fields)


def written(executor: Executor) -> Counter[str]:
    """Bytes of what each session's traces from its last trim on, and its closed segments, are as records."""
    state, found = executor.state, Counter[str]()
    for name, journal in executor.journals.items():
        kept = state[f"s/{name}"].cursor.index - sum(1 for _ in journal.items(0))
        found[name] += sum(len(encode_state("e/", trace)) for trace in journal.items(kept))
    for key, value in state.items():
        if key.startswith("g/") and value.segment is not None:
            found[key[2:].rpartition("/")[0]] += len(encode_state(key, value))
    return found


def talk(dice: random.Random, events: int) -> list[LogRecord]:
    """Three sessions of two tenants that end tasks, are late, and hear of earlier ones."""
    sent: list[dict[str, Any]] = []
    numbers: Counter[str] = Counter()
    for at in range(events):
        name = dice.choice("abc")
        tenant, number = ("quiet" if name == "a" else "loud"), numbers[name]
        numbers[name] += dice.choice((1, 1, 1, 1, 2))
        kind: dict[str, Any] = dice.choice((
            {}, {}, {},
            {"event_type": "state_change", "content": {"to": "completed"}},
            {"event_type": "feedback", "content": {"signal": "positive", "target_event_id": f"{name}-{number // 2}"}},
        ))  # fmt: skip
        late = number and dice.random() < 0.05
        size = dice.choice((10, STEP_TEXT, 3 * TRACE_BYTES))
        sent.append(sized(name, number // 2 if late else number, tenant, size, event_id=f"{name}-{at}", **kind))
    return log([(200 * n, item) for n, item in enumerate(sent)])


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), events=st.sampled_from((40, 400, 1_500)))
def test_what_is_counted_is_what_is_remembered(seed: int, events: int) -> None:
    executor = Executor(sessions_fold(), 0)
    executor.run(talk(random.Random(seed), events))
    found = written(executor)
    for key, session in executor.state.items():
        if key.startswith("s/"):
            last = session.nbytes - sum(session.traced) - sum(session.closed_bytes)
            assert last >= 0
            assert len(session.closed_bytes) == len(session.closed)
            assert found[key[2:]] / 2 <= session.nbytes <= 3 * found[key[2:]] + 64 * TRACE_BYTES


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_all_that_sessions_remember_is_bounded_and_no_tenant_within_its_share_loses_any_of_it(seed: int) -> None:
    dice = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hmx_pipeline.stages.session_releasing.PARTITION_SESSION_BYTES", BOUND)
        quiet = [sized(f"quiet-{n}", k, "quiet", 300) for n in range(5) for k in range(4)]
        loud = [sized(f"loud-{n}", k, dice.choice(("loud", "noisy")), 2_000) for n in range(40) for k in range(6)]
        records = log([(10 * n, item) for n, item in enumerate([*quiet, *dice.sample(loud, len(loud))])])
        executor, before, added = Executor(sessions_fold(), 0), Counter[str](), 0
        for record in records:
            executor.run([record])
            have: Counter[str] = Counter()
            for key, value in executor.state.items():
                if key.startswith("s/"):
                    have[tenant_of(key[2:])] += value.nbytes
            assert have.total() <= BOUND
            lost = {tenant for tenant in before if have[tenant] < before[tenant]}
            assert all(before[tenant] + added + 2 * TRACE_BYTES > BOUND / 3 for tenant in lost), (
                "no more than its share"
            )
            before, added = have, sum(2 * TRACE_BYTES for key in executor.state if key.startswith("w/"))
        assert executor.counts["session_forgotten_heavy"] > 20
        assert {key for key in executor.state if key.startswith("s/quiet/")} == {f"s/quiet/quiet-{n}" for n in range(5)}
        assert executor.counts["released"] + executor.counts["released_late"] + sum(
            key.startswith("w/") for key in executor.state
        ) == len(records)


def test_who_gives_way_does_not_depend_on_batches_and_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmx_pipeline.stages.session_releasing.PARTITION_SESSION_BYTES", BOUND)
    for seed in range(3):
        dice, records = random.Random(seed), talk(random.Random(seed), 600)
        whole = run(sessions_fold, records)
        assert whole.counts["session_forgotten_heavy"] > 0
        cut = run(sessions_fold, records, cut=lambda left, dice=dice: dice.randint(1, min(left, 90)), restores=True)
        assert (cut.outputs, cut.state, cut.counts) == (whole.outputs, whole.state, whole.counts)


def test_a_session_of_an_earlier_release_is_counted_from_its_next_event_on() -> None:
    records = talk(random.Random(1), 300)
    executor, topic = Executor(sessions_fold(), 0), {}
    effects = executor.run(records[:200])
    for key, value in effects.changes.items():
        topic[key] = value
        if key.startswith("s/") and value is not None:
            text = executor.fold.decode(key, value)
            topic[key] = encode_state(key, type(text)(**{
                name: getattr(text, name) for name in text.__struct_fields__
                if name not in ("nbytes", "traced", "closed_bytes")
            }))  # fmt: skip
    topic["!"] = executor.position_record(200, "id", ())
    restored = Executor(sessions_fold(), 0)
    restored.restore(list(topic.items()))
    went_on, plain = restored.run(records[200:]), executor.run(records[200:])
    assert went_on.outputs == plain.outputs
    assert all(value.nbytes >= 0 for key, value in restored.state.items() if key.startswith("s/"))
