"""The reference and the stages, written apart from each other, agree on what comes of any traffic. No Kafka here."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hmx_pipeline.contracts.evidence import Archive, TenantSettings
from hmx_pipeline.contracts.limits import BARRIER_KEPT_MS, RECENT_IDS, SESSION_FORGOTTEN_MS, WAITING_EVENTS, WINDOW_MS
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.intake.control_records import archive, importing, setting
from hmx_pipeline.stages.fold import Fold, Output
from hmx_pipeline.stages.patterns import PatternsFold
from tests.support.evidence import gift_of
from tests.support.inprocess import KEY, Ran, artifacts_of, run, sessions_fold
from tests.support.records import START_MS, LogRecord, event
from tests.support.scripts import Line, logs, partitioned, show
from tests.support.sessions import interleaved, session
from tests.support.talk import said
from tests.support.traffic import Sent, control, controls, lay_out, returning, traffic
from tests.verifier import Fault, Report, Rules, Snapshot, compare
from tests.verifier.log import Part, Row
from tests.verifier.patterns import Patterns
from tests.verifier.rules import EVENTS, EVIDENCE, PATTERN_STATE, SESSION_STATE, TOPICS

PARTITIONS = 4
BOTH = pytest.mark.parametrize("strict", [False, True], ids=["eager", "strict"])
ROWS = pytest.mark.requirement(
    "E-05", "E-08", "E-24", "E-25", "E-26", "E-28", "X03", "X04", "X29", "Y01", "Y11", "Y12", "Y13", "Y14", "Y17"
)
RESTORED = 100
"""Of a log of fewer records the state is restored before each batch."""
LOSE = Patterns._lose
Logs = Mapping[int, Sequence[LogRecord]]


def verified(logs: Logs, dice: random.Random, *, strict: bool = False, partitions: int = PARTITIONS) -> Report:
    """Both stages on these logs, however they are cut, and what the verifier says of what they have written."""
    topics = {topic: [Part() for _ in range(partitions)] for topic in TOPICS}
    evidence: list[list[Output]] = []

    def new_fold() -> Fold:
        return sessions_fold(partitions, partitions, strict=strict)

    for number in range(partitions):
        log, fold = logs.get(number, ()), new_fold()
        ran = run(new_fold, log, lambda left: dice.randint(1, left), restores=len(log) < RESTORED)
        topics[EVENTS][number].rows = [row_of(record) for record in log]
        write(topics, [output for output in ran.outputs if output.topic != EVIDENCE])
        topics[SESSION_STATE][number].rows = state_of(fold, ran, log)
        evidence.append(ran.on(EVIDENCE))
    write(topics, interleaved(evidence, dice))
    for number in range(partitions):
        log = [as_read(number, row) for row in topics[EVIDENCE][number].rows]
        ran = run(PatternsFold, log)
        write(topics, ran.outputs)
        topics[PATTERN_STATE][number].rows = state_of(PatternsFold(), ran, log)
    for parts in topics.values():
        for part in parts:
            part.high = len(part.rows)
    return compare(Snapshot(topics, dict.fromkeys(TOPICS, "id"), None), Rules(KEY, strict))


def laid_out(sent: Sequence[Sent], dice: random.Random) -> Logs:
    return lay_out(sent, PARTITIONS, dice)


def write(topics: dict[str, list[Part]], outputs: Sequence[Output]) -> None:
    for output in outputs:
        rows = topics[output.topic][output.partition].rows
        at = START_MS + 40 * len(rows)
        rows.append(Row(len(rows), at, output.key, output.value, [(name, value) for name, value in output.headers]))


def row_of(record: LogRecord) -> Row:
    headers: list[Any] = list(record.headers)
    return Row(record.offset, record.timestamp, record.key, record.value, headers)


def as_read(partition: int, row: Row) -> LogRecord:
    headers: list[Any] = row.headers
    return LogRecord(partition, row.offset, row.at, row.key, row.value, headers)


def state_of(fold: Fold, ran: Ran, log: Sequence[LogRecord]) -> list[Row]:
    """The stream table's records; a partition without records has none."""
    if not log:
        return []
    position = {
        "position": log[-1].offset + 1,
        "clock": max(record.timestamp for record in log),
        "topic_id": "id",
        "counts": {str(name): n for name, n in ran.counts.items()},
    }
    state = {key: fold.encode(key, value) for key, value in ran.state.items()}
    return [Row(0, 0, key.encode(), value, []) for key, value in {**state, "!": orjson.dumps(position)}.items()]


def faults(report: Report) -> list[Fault]:
    """The copies of traffic that is laid out by itself claim any original."""
    return [fault for fault in report.faults if "copy of" not in fault.where]


@BOTH
@given(lines=logs(), dice=st.randoms(use_true_random=False))
def test_they_agree_on_any_small_log(strict: bool, lines: list[Line], dice: random.Random) -> None:
    show("the log", lines)
    made = dict(enumerate(partitioned(lines, PARTITIONS)))
    assert not verified(made, dice, strict=strict).faults


def in_turn(items: Iterable[tuple[int, dict[str, Any] | str]]) -> Logs:
    """One partition: each record, an event or a control record's kind, so long after the one before."""
    records: list[LogRecord] = []
    at = 0
    for offset, (step, item) in enumerate(items):
        at += step
        if isinstance(item, str):
            records.append(control(item, at, 0, offset))
        else:
            records.append(LogRecord(0, offset, START_MS + at, b"any", orjson.dumps(item)))
    return {0: records}


def tied(kind: str, session: str, sequence: int, instant: int, variant: str, other: bool) -> dict[str, Any] | str:
    """An event that has its sequence, its clock or its id in common with others."""
    if kind != "event":
        return kind
    made = event(session, sequence, event_id=f"{sequence}.{instant}{variant}", content={"other": other})
    return {**made, "timestamp": format_ms(START_MS + instant)}


STEPS = st.sampled_from([0, 0, 1, 1_000, 1_000, WINDOW_MS - 1, WINDOW_MS, -1, -3_000, SESSION_FORGOTTEN_MS])
RECORDS = st.builds(
    tied, st.sampled_from(["event"] * 12 + ["tick", "barrier"]), st.sampled_from(["a", "a", "a-b"]), st.integers(0, 4),
    st.integers(0, 4), st.sampled_from(["", "", "~"]), st.sampled_from([False] * 7 + [True]),
)  # fmt: skip


@ROWS
@BOTH
@settings(max_examples=5 * settings().max_examples)
@given(items=st.lists(st.tuples(STEPS, RECORDS), max_size=14), dice=st.randoms(use_true_random=False))
def test_they_agree_on_ties_of_sequence_and_clock(strict: bool, items: list[Any], dice: random.Random) -> None:
    assert not verified(in_turn(items), dice, strict=strict, partitions=1).faults


@ROWS
@BOTH
@pytest.mark.parametrize("seed", [1, 3])
def test_they_agree_on_traffic_with_everything_that_may_happen(seed: int, strict: bool) -> None:
    dice = random.Random(seed)
    sent = sorted([*traffic(seed, 80, 25, long=1), *controls(dice, 30, 20)], key=lambda record: record.at)
    report = verified(laid_out(returning(dice, sent) if seed == 3 else sent, dice), dice, strict=strict)
    assert not faults(report)
    assert {"released", "released_late", "duplicate", "rerouted", "control"} <= report.outcomes.keys()
    assert report.outcomes["rejected.event_id_reused"]


SAYINGS = (
    "Our database is Postgres.", "Our database is MySQL.", "The billing service runs on Postgres.", "We use Redis.",
    "We switched from Postgres to MySQL.", "We switched from MySQL to CockroachDB.", "We now use Kafka.",
    "We no longer use Redis.", "We replaced Redis with Valkey.", "The cache is Redis.",
)  # fmt: skip


def test_they_agree_on_what_sessions_teach() -> None:
    """Interleaved sessions, each event a little later than the last, with barriers between. Eagerly, the tests of what
    operators decide hold it."""
    dice = random.Random(4)
    events = interleaved([session(number) for number in range(24)], dice)
    sent = [Sent(150 * n, orjson.dumps(item), item) for n, item in enumerate(events)]
    sent += [Sent(150 * n, control="barrier") for n in range(0, len(events), 90)]
    sent.append(Sent(150 * len(events) + BARRIER_KEPT_MS, control="tick"))
    report = verified(laid_out(sorted(sent, key=lambda record: record.at), dice), dice, strict=True)
    assert not report.faults
    assert report.compared["artifact records"] > report.compared["patterns"] > 2


@BOTH
def test_they_agree_on_whose_it_is(strict: bool) -> None:
    """Sessions of subjects, of nobody and of one that is named late; the tenant becomes a team, and none again."""
    dice = random.Random(6)
    whose = ["u1", "u2", "", "u3", "late"]
    told = [said(f"s{n}", *dice.sample(SAYINGS, 3), at=40 * n) for n in range(20)]
    for n, events in enumerate(told):
        name = whose[n % len(whose)]
        for event_ in events[2 if name == "late" else 0 :] if name else ():
            event_["metadata"] = {"user_id": name}
    events = interleaved(told, dice)
    sent = [Sent(150 * n, orjson.dumps(item), item) for n, item in enumerate(events)]
    for at, sharing in ((15, "team"), (40, "subjects")):
        value = setting(TenantSettings.model_validate({"tenant_id": "acme", "sharing": sharing}), 0, START_MS)
        sent.append(Sent(150 * at, control="tenant", value=value))
    sent += [Sent(150 * n, control="barrier") for n in range(0, len(events), 30)]
    sent.append(Sent(150 * len(events) + BARRIER_KEPT_MS, control="tick"))
    report = verified(laid_out(sorted(sent, key=lambda record: record.at), dice), dice, strict=strict)
    assert not report.faults
    assert report.compared["knowledge records"] > 40


def test_they_agree_on_what_operators_archive() -> None:
    """Before the evidence, while it comes and afterwards, and each decision in every partition."""
    dice = random.Random(5)
    events = interleaved([session(number) for number in range(24)], dice)
    sent = [Sent(150 * n, orjson.dumps(item), item) for n, item in enumerate(events)]
    learnt = {a["metadata"]["pattern"]: a["artifact_id"] for a in artifacts_of(events)}
    for at, (pattern, artifact_id) in zip((0, 40, 80, 120), sorted(learnt.items()), strict=False):
        decided = Archive(tenant_id="acme", pattern=pattern, artifact_id=artifact_id, reason="no longer wanted")
        sent.append(Sent(at * 150 * len(events) // 120, control="archive", value=archive(decided, 0, START_MS)))
    unreadable = Archive(tenant_id="acme", pattern="no pattern", artifact_id="a")
    sent.append(Sent(9, control="archive", value=archive(unreadable, 0, START_MS)))
    sent += [Sent(150 * n, control="barrier") for n in range(0, len(events), 90)]
    sent.append(Sent(150 * len(events) + BARRIER_KEPT_MS, control="tick"))
    report = verified(laid_out(sorted(sent, key=lambda record: record.at), dice), dice)
    assert not report.faults
    assert len(learnt) >= 4


def test_they_agree_on_what_operators_import() -> None:
    """Of patterns that the sessions teach too and of others, at several times, for one agent and for all."""
    dice = random.Random(6)
    events = interleaved([session(number) for number in range(24)], dice)
    sent = [Sent(150 * n, orjson.dumps(item), item) for n, item in enumerate(events)]
    patterns = sorted({a["metadata"]["pattern"] for a in artifacts_of(events)})[:6]
    for at, pattern in zip((0, 20, 40, 60, 80, 120), patterns, strict=False):
        for day, agent in ((1, "a"), (2, ""), (1, "b")):
            gift = gift_of(
                pattern, agent_id=agent, created_at=f"2026-03-0{day}T00:00:00Z", fingerprint_hash=f"{day}" * 64
            )
            value = importing(gift, 0, START_MS)
            sent.append(Sent((at + 7 * day) * 150 * len(events) // 140, control="import", value=value))
    for odd in (gift_of("x-acme-runbook/failover"), gift_of("x-hmx-priors/", tenant_id="newcomer")):
        sent.append(Sent(9, control="import", value=importing(odd, 0, START_MS)))
    broken = orjson.dumps(orjson.loads(importing(odd, 0, START_MS)) | {"content": {"tenant_id": 7}})
    sent.append(Sent(11, control="import", value=broken))
    sent += [Sent(150 * n, control="barrier") for n in range(0, len(events), 90)]
    sent.append(Sent(150 * len(events) + BARRIER_KEPT_MS, control="tick"))
    report = verified(laid_out(sorted(sent, key=lambda record: record.at), dice), dice)
    assert not report.faults
    assert report.compared["patterns compiled again"] > 6


@BOTH
@pytest.mark.requirement("E-34")
@pytest.mark.parametrize("step", [1, -1], ids=["behind a gap", "backwards"])
def test_they_agree_where_a_window_is_full(strict: bool, step: int) -> None:
    items = [(0, event(sequence=n)) for n in range(1, WAITING_EVENTS + 40)][::step]
    report = verified(in_turn([*items, (WINDOW_MS, "tick")]), random.Random(1), strict=strict, partitions=1)
    assert not report.faults
    assert (report.outcomes["released_late"] > 0) is (step < 0)


@BOTH
@pytest.mark.requirement("Y11")
def test_they_agree_where_a_counter_that_starts_over_empties_a_full_window(strict: bool) -> None:
    full = [event(sequence=n, event_id=f"{n}") for n in range(2, WAITING_EVENTS + 2)]
    again = [event(sequence=n, event_id=f"again-{n}", at=START_MS + 10_000_000 + n) for n in range(3)]
    items = [(0, event()), (WINDOW_MS, "tick"), *((0, item) for item in [*full, *again])]
    for log in (items, [*items, (WINDOW_MS, "tick")]):
        report = verified(in_turn(log), random.Random(1), strict=strict, partitions=1)
        assert not report.faults
    assert report.outcomes["released"] == len(full) + len(again) + 1


@BOTH
@pytest.mark.parametrize("between", [RECENT_IDS - 2, RECENT_IDS - 1, RECENT_IDS, 2 * RECENT_IDS])
def test_an_id_is_remembered_for_so_many_releases_and_no_more(strict: bool, between: int) -> None:
    """However long the segment is that it belongs to."""
    events = [event(sequence=n, event_type="command_exec", content={"command": f"c{n}"}) for n in range(between + 2)]
    items = [*((0, item) for item in events), (WINDOW_MS, "tick"), (0, events[1]), (0, events[0]), (0, events[1])]
    report = verified(in_turn(items), random.Random(1), strict=strict, partitions=1)
    assert not report.faults
    assert (report.outcomes["released_late"] > 0) is (between > RECENT_IDS - 2)


def test_they_agree_where_a_partition_keeps_no_more_contributions(monkeypatch: pytest.MonkeyPatch) -> None:
    lost: Counter[str] = Counter()
    for module in ("hmx_pipeline.stages.pattern_state", "tests.verifier.patterns"):
        monkeypatch.setattr(f"{module}.PARTITION_CONTRIBUTION_BYTES", 30_000)
    monkeypatch.setattr(Patterns, "_lose", lambda self, *given: (lost.update("x"), LOSE(self, *given)))
    dice = random.Random(4)
    told = [session(n, dice.choice(("acme", "acme", "globex", "initech"))) for n in range(40)]
    events = interleaved(told, dice)
    sent = [Sent(150 * n, orjson.dumps(item), item) for n, item in enumerate(events)]
    sent += [Sent(150 * n, control="barrier") for n in range(0, len(events) + 90, 90)]
    sent.append(Sent(150 * len(events) + BARRIER_KEPT_MS, control="tick"))
    report = verified(laid_out(sorted(sent, key=lambda record: record.at), dice), dice)
    assert not report.faults
    assert lost["x"] > 20
    assert report.compared["artifact records"] > 2


@pytest.mark.parametrize("most", [256, 1])
def test_they_agree_on_what_ends_statements_of_others(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a value is a word: more statements have it than an ending may reach."""
    monkeypatch.setattr("hmx_pipeline.stages.ending_index._MOST", {False: most, True: most})
    for name in ("KNOWLEDGE_TOUCHED", "KNOWLEDGE_CHAINED"):
        monkeypatch.setattr(f"tests.verifier.patterns.{name}", most)
    dice = random.Random(5)
    told = [said(f"s{n}", dice.choice(SAYINGS), dice.choice(SAYINGS), at=n) for n in range(40)]
    events = interleaved(told, dice)
    sent = [Sent(150 * n, orjson.dumps(item), item) for n, item in enumerate(events)]
    sent += [Sent(150 * n, control="barrier") for n in range(0, len(events), 30)]
    sent.append(Sent(150 * len(events) + BARRIER_KEPT_MS, control="tick"))
    report = verified(laid_out(sorted(sent, key=lambda record: record.at), dice), dice)
    assert not report.faults
    assert report.compared["patterns of knowledge"] > 8


def test_they_agree_where_operators_decide_on_more_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("hmx_pipeline.stages.pattern_state", "tests.verifier.patterns"):
        monkeypatch.setattr(f"{module}.TENANT_DECISIONS", 2)
    test_they_agree_on_what_operators_archive()
    test_they_agree_on_what_operators_import()
