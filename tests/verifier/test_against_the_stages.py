"""The reference and the stages, written apart from each other, agree on what comes of any traffic. No Kafka here."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.contracts.evidence import Archive
from pipeline.contracts.limits import BARRIER_KEPT_MS, WAITING_EVENTS
from pipeline.intake.control import archive, importing
from pipeline.stages.fold import Fold, Output
from pipeline.stages.patterns import PatternsFold
from tests.support.evidence import gift_of
from tests.support.inprocess import KEY, Ran, artifacts_of, run, sessions_fold
from tests.support.records import START_MS, LogRecord, event
from tests.support.scripts import Line, logs, partitioned, show
from tests.support.sessions import interleaved, session
from tests.support.talk import said
from tests.support.traffic import Sent, controls, lay_out, returning, traffic
from tests.verifier import Fault, Report, Rules, Snapshot, compare
from tests.verifier.log import Part, Row
from tests.verifier.patterns import Patterns
from tests.verifier.rules import EVENTS, EVIDENCE, PATTERN_STATE, SESSION_STATE, TOPICS

PARTITIONS = 4
BOTH = pytest.mark.parametrize("strict", [False, True], ids=["eager", "strict"])
LOSE = Patterns._lose
Logs = Mapping[int, Sequence[LogRecord]]


def verified(logs: Logs, dice: random.Random, *, strict: bool = False) -> Report:
    """Both stages on these logs, and what the verifier says of what they have written."""
    topics = {topic: [Part() for _ in range(PARTITIONS)] for topic in TOPICS}
    evidence: list[list[Output]] = []
    for number in range(PARTITIONS):
        log = logs.get(number, ())
        fold = sessions_fold(PARTITIONS, PARTITIONS, strict=strict)
        ran = run(lambda: sessions_fold(PARTITIONS, PARTITIONS, strict=strict), log, lambda left: dice.randint(1, left))
        topics[EVENTS][number].rows = [row_of(record) for record in log]
        write(topics, [output for output in ran.outputs if output.topic != EVIDENCE])
        topics[SESSION_STATE][number].rows = state_of(fold, ran, log)
        evidence.append(ran.on(EVIDENCE))
    write(topics, interleaved(evidence, dice))
    for number in range(PARTITIONS):
        log = [as_read(number, row) for row in topics[EVIDENCE][number].rows]
        ran = run(PatternsFold, log)
        write(topics, ran.outputs)
        topics[PATTERN_STATE][number].rows = state_of(PatternsFold(), ran, log)
    for parts in topics.values():
        for part in parts:
            part.high = len(part.rows)
    return compare(Snapshot(topics, dict.fromkeys(TOPICS, "id"), None), Rules(KEY, strict))


def laid_out(sent: Sequence[Sent], dice: random.Random) -> Logs:
    return {number: log.records for number, log in lay_out(sent, PARTITIONS, dice).items()}


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


@BOTH
@pytest.mark.parametrize("seed", [1, 3])
def test_they_agree_on_traffic_with_everything_that_may_happen(seed: int, strict: bool) -> None:
    dice = random.Random(seed)
    sent = sorted([*traffic(seed, 150, 40, long=1), *controls(dice, 50, 30)], key=lambda record: record.at)
    report = verified(laid_out(returning(dice, sent) if seed == 3 else sent, dice), dice, strict=strict)
    assert not faults(report)
    assert {"released", "released_late", "duplicate", "rerouted", "control"} <= report.outcomes.keys()


SAYINGS = (
    "Our database is Postgres.", "Our database is MySQL.", "The billing service runs on Postgres.", "We use Redis.",
    "We switched from Postgres to MySQL.", "We switched from MySQL to CockroachDB.", "We now use Kafka.",
    "We no longer use Redis.", "We replaced Redis with Valkey.", "The cache is Redis.",
)  # fmt: skip


@BOTH
def test_they_agree_on_what_sessions_teach(strict: bool) -> None:
    """Interleaved sessions, each event a little later than the last, with barriers between."""
    dice = random.Random(4)
    events = interleaved([session(number) for number in range(60)], dice)
    sent = [Sent(150 * n, orjson.dumps(item), item) for n, item in enumerate(events)]
    sent += [Sent(150 * n, control="barrier") for n in range(0, len(events), 90)]
    sent.append(Sent(150 * len(events) + BARRIER_KEPT_MS, control="tick"))
    report = verified(laid_out(sorted(sent, key=lambda record: record.at), dice), dice, strict=strict)
    assert not report.faults
    assert report.compared["artifact records"] > report.compared["patterns"] > 2


@BOTH
def test_they_agree_on_what_operators_archive(strict: bool) -> None:
    """Before the evidence, while it comes and afterwards, and each decision in every partition."""
    dice = random.Random(5)
    events = interleaved([session(number) for number in range(60)], dice)
    sent = [Sent(150 * n, orjson.dumps(item), item) for n, item in enumerate(events)]
    learnt = {a["metadata"]["pattern"]: a["artifact_id"] for a in artifacts_of(events)}
    for at, (pattern, artifact_id) in zip((0, 40, 80, 120), sorted(learnt.items()), strict=False):
        decided = Archive(tenant_id="acme", pattern=pattern, artifact_id=artifact_id, reason="no longer wanted")
        sent.append(Sent(at * 150 * len(events) // 120, control="archive", value=archive(decided, 0, START_MS)))
    unreadable = Archive(tenant_id="acme", pattern="no pattern", artifact_id="a")
    sent.append(Sent(9, control="archive", value=archive(unreadable, 0, START_MS)))
    sent += [Sent(150 * n, control="barrier") for n in range(0, len(events), 90)]
    sent.append(Sent(150 * len(events) + BARRIER_KEPT_MS, control="tick"))
    report = verified(laid_out(sorted(sent, key=lambda record: record.at), dice), dice, strict=strict)
    assert not report.faults
    assert len(learnt) >= 4


@BOTH
def test_they_agree_on_what_operators_import(strict: bool) -> None:
    """Of patterns that the sessions teach too and of others, at several times, for one agent and for all."""
    dice = random.Random(6)
    events = interleaved([session(number) for number in range(60)], dice)
    sent = [Sent(150 * n, orjson.dumps(item), item) for n, item in enumerate(events)]
    patterns = sorted({a["metadata"]["pattern"] for a in artifacts_of(events)})[:6]
    for at, pattern in zip((0, 20, 40, 60, 80, 120), patterns, strict=True):
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
    report = verified(laid_out(sorted(sent, key=lambda record: record.at), dice), dice, strict=strict)
    assert not report.faults
    assert report.compared["patterns compiled again"] > 6


@BOTH
def test_they_agree_where_a_window_is_full(strict: bool) -> None:
    backwards = [event(sequence=n) for n in range(2 * WAITING_EVENTS, WAITING_EVENTS - 100, -1)]
    sent = [Sent(0, orjson.dumps(item), item) for item in backwards] + [Sent(5_000, control="tick")]
    report = verified(laid_out(sent, random.Random(1)), random.Random(1), strict=strict)
    assert report.outcomes["released_late"] > 100
    assert not report.faults


def test_they_agree_where_a_partition_keeps_no_more_contributions(monkeypatch: pytest.MonkeyPatch) -> None:
    lost: Counter[str] = Counter()
    for module in ("pipeline.stages.pattern_state", "tests.verifier.patterns"):
        monkeypatch.setattr(f"{module}.PARTITION_CONTRIBUTION_BYTES", 30_000)
    monkeypatch.setattr(Patterns, "_lose", lambda self, *given: (lost.update("x"), LOSE(self, *given)))
    dice = random.Random(4)
    told = [session(n, dice.choice(("acme", "acme", "globex", "initech"))) for n in range(60)]
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
    monkeypatch.setattr("pipeline.stages.reach._MOST", {False: most, True: most})
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
    for module in ("pipeline.stages.pattern_state", "tests.verifier.patterns"):
        monkeypatch.setattr(f"{module}.TENANT_DECISIONS", 2)
    test_they_agree_on_what_operators_archive(strict=False)
    test_they_agree_on_what_operators_import(strict=False)
