"""Law 5 for what operators decide: rulings, erasures, retention and evidence of several partitions leave the same
knowledge.

Events, policies and what operators decide stand in the log as they come live: a ruling is on a record that was known a
little earlier. Each partition keeps its order; how they come together on the evidence topic is up to the dice.
"""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from hmx_pipeline.contracts.erasure import ErasedScope, Erasure
from hmx_pipeline.contracts.evidence import TenantSettings
from hmx_pipeline.contracts.headers import origin_of
from hmx_pipeline.contracts.keys import partition_of, session_key, tenant_partition
from hmx_pipeline.contracts.limits import WINDOW_MS
from hmx_pipeline.contracts.retention import DAY_MS, Retention
from hmx_pipeline.contracts.ruling import RulingVerb
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.intake.control_records import erase, retaining, ruling, setting, tick
from hmx_pipeline.queries.knowledge_query import RulingError, RulingRequest, make_ruling
from hmx_pipeline.stages.fold import Output
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.topology import EVIDENCE, KNOWLEDGE
from tests.support.inprocess import Ran, barrier_record, run, sessions_fold, signed
from tests.support.records import START_MS, LogRecord, event
from tests.support.sessions import interleaved

SAYINGS = (
    "Our database is Postgres.", "Our database is MySQL.", "My home address is 12 Oak Street.",
    "We switched from Postgres to MySQL.", "We use Redis.",
)  # fmt: skip
WHOSE = ("", "ada", "bob", "")
SESSIONS = 12
LATE = range(4, 8)
"""The sessions whose first message names nobody."""
ERASED = [
    (ErasedScope.TENANT, ""), (ErasedScope.SUBJECT, "ada"), (ErasedScope.SUBJECT, "bob"),
    *((ErasedScope.SESSION, f"s{n}") for n in range(SESSIONS)),
]  # fmt: skip
INSTEAD = "Nobody told us."


class Said(NamedTuple):
    session: int
    text: str
    days: int = 0
    """How old it is when it comes."""


class Erased(NamedTuple):
    what: int


class Decided(NamedTuple):
    verb: RulingVerb
    which: int
    lag: int
    """How many steps ago the operator looked."""


class Shared(NamedTuple):
    team: bool


class Retained(NamedTuple):
    policy: str


class Known(NamedTuple):
    """What an operator finds."""

    records: list[dict[str, Any]]
    contributions: list[dict[str, Any]]


Step = Said | Erased | Decided | Shared | Retained
SAID = st.builds(Said, st.integers(0, SESSIONS - 1), st.sampled_from(SAYINGS), st.integers(0, 3))
DECIDED = st.builds(Decided, st.sampled_from(RulingVerb), st.integers(0, 30), st.integers(0, 2))
STEPS = st.lists(
    st.one_of(
        SAID,
        SAID,
        DECIDED,
        st.builds(Erased, st.integers(0, len(ERASED) - 1)),
        st.builds(Shared, st.booleans()),
        st.builds(Retained, st.sampled_from(["knowledge:1d", "all:2d", "episodes:1d,artifacts:1d", ""])),
    ),
    min_size=4,
    max_size=16,
)


class Logs:
    """The partitions of the events topic, as these steps fill them. Everything is contributed at once."""

    def __init__(self, steps: Sequence[Step], partitions: int, pace_ms: int) -> None:
        self._logs: list[list[LogRecord]] = [[] for _ in range(partitions)]
        self._spoken = [0] * SESSIONS
        known = [Known([], [])]
        for n, step in enumerate(steps):
            at = START_MS + n * pace_ms
            match step:
                case Said():
                    self._say(step, at)
                case Erased():
                    scope, name = ERASED[step.what]
                    asked = Erasure(erasure_id=f"e{n}", tenant_id="acme", scope=scope, name=name, at=at)
                    self._append(erase(asked, 0), at, *range(partitions))
                case Shared():
                    sharing = TenantSettings(tenant_id="acme", sharing="team" if step.team else "subjects")
                    self._append(setting(sharing, 0, at), at, tenant_partition("acme", partitions))
                case Retained():
                    told = Retention.told("acme", step.policy)
                    self._append(retaining(told, 0, at), at, *range(partitions))
                case Decided():
                    self._decide(step, known[max(0, n - step.lag)], at)
            self._pass(at, f"b{n}")
            looked = any(isinstance(one, Decided) for one in steps[n + 1 : n + 4])
            known.append(self._known() if looked else Known([], []))

        at = START_MS + len(steps) * pace_ms
        self._append(tick(0, at), at + 2 * WINDOW_MS, *range(partitions))  # what waits behind an erased event comes
        self._pass(at + 2 * WINDOW_MS, "end")

    def _pass(self, at: int, barrier_id: str) -> None:
        for partition, log in enumerate(self._logs):
            log.append(barrier_record(at - START_MS, partition, len(log), barrier_id))

    def _append(self, value: bytes, at: int, *partitions: int) -> None:
        for partition in partitions:
            log = self._logs[partition]
            log.append(signed(value, partition, len(log), at - START_MS))

    def _say(self, step: Said, at: int) -> None:
        name, number = f"s{step.session}", self._spoken[step.session]
        whose = WHOSE[step.session % len(WHOSE)] if number or step.session not in LATE else ""
        self._spoken[step.session] += 1
        content, names = {"role": "user", "text": step.text}, {"user_id": whose} if whose else {}
        told = format_ms(at - step.days * DAY_MS)
        made = event(name, number, at=at, content=content, metadata=names, timestamp=told)
        key = session_key("acme", name)
        log = self._logs[partition_of(key, len(self._logs))]
        log.append(LogRecord(partition_of(key, len(self._logs)), len(log), at, key.encode(), orjson.dumps(made)))

    def _decide(self, step: Decided, known: Known, at: int) -> None:
        words = {"text": INSTEAD, "value": "nobody"} if step.verb is RulingVerb.CORRECT else {}
        asked = RulingRequest(reason="So", **words)
        sources = known.contributions if step.which % 4 else []  # memory may not know them
        try:
            record = known.records[step.which % len(known.records)]
            made = make_ruling(record, step.verb, asked, at, sources=sources)
        except (RulingError, ZeroDivisionError):  # there is nothing to rule on
            return
        self._append(ruling(made, 0), at, tenant_partition("acme", len(self._logs)))

    def _known(self) -> Known:
        came = self.as_they_came()
        evidence = [orjson.loads(one.value or b"") for one in came]
        return Known(spoken(patterns(came)), [one for one in evidence if "contribution_id" in one])

    def contributed(self) -> list[list[Output]]:
        return [run(lambda: sessions_fold(len(self._logs)), log).on(EVIDENCE) for log in self._logs]

    def as_they_came(self) -> list[Output]:
        """Each output at the time of its input."""

        def came(one: Output) -> tuple[int, int]:
            number, offset = origin_of(one.headers) or (0, 0)
            return self._logs[number][offset].timestamp, number

        return sorted((one for log in self.contributed() for one in log), key=came)


def patterns(outputs: Sequence[Output]) -> Ran:
    log = [LogRecord(0, n, START_MS + 20 * n, one.key, one.value, one.headers) for n, one in enumerate(outputs)]
    return run(PatternsFold, log)


def spoken(ran: Ran) -> list[dict[str, Any]]:
    """The records that the topic is left with."""
    last = {output.key: output.value for output in ran.on(KNOWLEDGE)}
    return [orjson.loads(value) for value in last.values() if value]


def shown(ran: Ran) -> dict[str, dict[str, Any]]:
    """Those of them that are not withdrawn: the end of a withdrawn one is when that was."""
    return {one["record_id"]: one for one in spoken(ran) if one["status"] != "withdrawn"}


def knowledge(ran: Ran) -> dict[str, Any]:
    """What is known of each pattern, what it rests on, and what operators have ruled on it, also on what is gone."""
    known = {key: (state.records, state.rulings) for key, state in ran.state.items() if key[0] == "p"}
    known = {key: one for key, one in known.items() if any(one)}  # others may only tell what they withdrew
    return known | {key: one for key, one in ran.state.items() if key[0] in "md"}


@pytest.mark.requirement("E-27")
@settings(max_examples=settings().max_examples // 4)
@given(
    steps=STEPS,
    partitions=st.sampled_from([2, 3, 5]),
    pace_ms=st.sampled_from([1_000, 600_000, 36_000_000]),
    dice=st.randoms(use_true_random=False),
)
def test_any_interleaving_of_rulings_erasures_and_evidence_leaves_the_same_knowledge(
    steps: list[Step], partitions: int, pace_ms: int, dice: random.Random
) -> None:
    """Rulings before erasures and after them, soon or long after; erasures of sessions, subjects and the tenant. Some
    sessions name their subject late, the tenant is a team at times, and its policies take something every midnight."""
    logs = Logs(steps, partitions, pace_ms)
    came, mixed = logs.as_they_came(), interleaved(logs.contributed(), dice)
    note("\n".join(f"{origin_of(one.headers)} {one.key!r} {(one.value or b'')[:90]!r}" for one in mixed))
    assert knowledge(patterns(mixed)) == knowledge(patterns(came))


FIRST, OWN, MOVED, NAMED = (Said(6, SAYINGS[n]) for n in (0, 2, 3, 4))
OTHER, TEAM, CORRECTED = Said(0, SAYINGS[0]), Shared(True), Decided(RulingVerb.CORRECT, 0, 0)
KEPT = Retained("all:1d")


@pytest.mark.parametrize("pace_ms", [1_000, 600_000], ids=["soon", "later"])
@pytest.mark.parametrize("verb", RulingVerb)
@pytest.mark.parametrize(
    ("steps", "holds"),
    [
        ([FIRST, CORRECTED, NAMED], False),
        ([OWN, CORRECTED, NAMED], False),
        ([TEAM, FIRST, CORRECTED, NAMED], True),
        ([FIRST, CORRECTED, NAMED, TEAM], True),
        ([TEAM, FIRST, CORRECTED, NAMED, Shared(False)], False),
        ([TEAM, OWN, CORRECTED, NAMED], False),
        ([TEAM, FIRST, NAMED, CORRECTED], True),
        ([FIRST, OTHER, CORRECTED, NAMED], True),
        ([OTHER, MOVED, CORRECTED._replace(which=1), Erased(3), NAMED], False),
        ([FIRST._replace(days=3), CORRECTED, KEPT], True),
        ([FIRST._replace(days=3), KEPT, CORRECTED._replace(lag=1)], True),
        ([Said(2, SAYINGS[4], days=3), KEPT, OTHER, CORRECTED], True),
    ],
    ids=[
        "subjects",
        "own",
        "team",
        "team later",
        "team before",
        "own in a team",
        "team, after",
        "with others",
        "an ending",
        "old, but ruled on",
        "gone before",
        "a name that is gone",
    ],
)
def test_what_was_ruled_on_what_becomes_a_subjects_or_too_old_depends_on_no_order(
    steps: list[Step], holds: bool, verb: RulingVerb, pace_ms: int
) -> None:
    """A correction from before is shared as long as what it was made from is; the others stay."""
    logs = Logs([one._replace(verb=verb) if isinstance(one, Decided) else one for one in steps], 3, pace_ms)
    came, contributed = patterns(logs.as_they_came()), logs.contributed()
    assert partition_of(session_key("acme", "s6"), 3) != tenant_partition("acme", 3)
    ruled = [one.verb for state in came.state.values() for one in getattr(state, "rulings", ())]
    assert ruled == [verb] or (not ruled and any(key[0] == "d" for key in came.state)), "sealed where nothing is left"
    if verb is RulingVerb.CORRECT:
        assert [one["text"] for one in spoken(came) if one["text"] == INSTEAD] == [INSTEAD] * holds
    for seed in range(20):
        mixed = patterns(interleaved(contributed, random.Random(seed)))
        assert knowledge(mixed) == knowledge(came)
        assert shown(mixed) == shown(came)
