"""The reference and the stages agree on what erasures and a retention leave, and on what operators have ruled."""

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import orjson
import pytest

from hmx_pipeline.compiler.knowledge.scopes import scope_of
from hmx_pipeline.contracts.erasure import ErasedScope, Erasure, mark_of
from hmx_pipeline.contracts.evidence import Archive, TenantSettings
from hmx_pipeline.contracts.keys import split_key
from hmx_pipeline.contracts.limits import BARRIER_KEPT_MS
from hmx_pipeline.contracts.retention import DAY_MS, Retention
from hmx_pipeline.contracts.ruling import Ruling, RulingVerb
from hmx_pipeline.contracts.timestamps import format_ms, milliseconds
from hmx_pipeline.intake.control_records import archive, barrier, erase, importing, retaining, ruling, setting
from hmx_pipeline.queries.knowledge_query import RulingRequest, make_ruling
from hmx_pipeline.stages import ending_index
from hmx_pipeline.stages.claimed_evidence import ClaimedEvidence
from hmx_pipeline.stages.pattern_compiling import PatternCompiling
from hmx_pipeline.stages.pattern_state import PatternState
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.stages.tenant_rules import TenantRules
from hmx_pipeline.topology import KNOWLEDGE
from tests.support.evidence import gift_of
from tests.support.inprocess import artifacts_of, events_log, evidence_logs, run
from tests.support.records import START_MS
from tests.support.sessions import interleaved, session
from tests.support.talk import said
from tests.support.traffic import Sent, lay_out
from tests.verifier.faults import Kind, Report
from tests.verifier.test_against_the_stages import SAYINGS, laid_out, verified

PACE_MS = 150
BOTH = pytest.mark.parametrize("strict", [False, True], ids=["eager", "strict"])
Json = dict[str, Any]


def told(seed: int, count: int = 20) -> list[Json]:
    """What several subjects state and do in their sessions, mixed; one session is named late, others by nobody."""
    dice = random.Random(seed)
    whose = ("ada", "bob", "", "cy", "late")
    sessions = [said(f"s{n}", *dice.sample(SAYINGS, 3), at=40 * n) for n in range(count)]
    sessions += [session(n) for n in range(count)]
    for n, events in enumerate(sessions):
        name = whose[n % len(whose)]
        for one in events[2 if name == "late" else 0 :] if name else ():
            one["metadata"] = {**one.get("metadata", {}), "subject_id": name}
    return interleaved(sessions, dice)


def paced(events: Sequence[Json], decided: Sequence[tuple[int, str, bytes]]) -> list[Sent]:
    """Events, decisions at their places, and barriers, the last ones after all."""
    sent = [Sent(PACE_MS * n, orjson.dumps(one), one) for n, one in enumerate(events)]
    sent += [Sent(PACE_MS * at, control=kind, value=value) for at, kind, value in decided]
    sent += [Sent(PACE_MS * n, control="barrier") for n in range(0, len(events) + 40, 40)]
    for n in range(20, len(events), 40):
        sent.append(Sent(PACE_MS * n, control="barrier", value=barrier(f"own-{n}", 0, START_MS, "acme", 4)))
    sent.append(Sent(PACE_MS * len(events) + BARRIER_KEPT_MS, control="tick"))
    return sorted(sent, key=lambda record: record.at)


def erasing(number: int, scope: ErasedScope, name: str, at: int, **more: Any) -> bytes:
    return erase(Erasure(erasure_id=f"e-{number}", tenant_id="acme", scope=scope, name=name, at=at, **more), 0)


def rulings(events: Sequence[Json], dice: random.Random, count: int) -> list[Ruling]:
    """On records that these events bring about."""
    found, sources = {}, []
    for log in evidence_logs(events_log(events).values()).values():
        sources += [one for one in (orjson.loads(record.value or b"") for record in log) if "contribution_id" in one]
        for output in run(PatternsFold, log).on(KNOWLEDGE):
            record = orjson.loads(output.value or b"null")
            if record is not None and record["status"] != "withdrawn" and record["kind"] in ("memory", "policy"):
                found[record["record_id"]] = record
    made = []
    for n, name in enumerate(dice.sample(sorted(found), count)):
        verb = (RulingVerb.CONFIRM, RulingVerb.CORRECT, RulingVerb.RETRACT)[n % 3]
        said_instead = {"text": "Our database is Oracle.", "value": "Oracle"} if verb is RulingVerb.CORRECT else {}
        asked = RulingRequest.model_validate(said_instead)
        known = sources if n % 4 else []  # memory may not know them
        made.append(make_ruling(found[name], verb, asked, START_MS + n, sources=known))
    return made


@cache
def ruled(seed: int, count: int) -> tuple[list[Json], list[Ruling]]:
    """What is told, and rulings on it; both stages fold it for that."""
    events = told(seed)
    return events, rulings(events, random.Random(seed), count)


@BOTH
def test_they_agree_on_what_is_erased_whenever_that_is(strict: bool) -> None:
    """Subjects, a session and what waits; some of the past comes after its erasure, and some sessions begin again."""
    events = told(6)
    end, later = len(events), START_MS + 10_000_000_000
    known = [mark_of("acme", ErasedScope.SESSION, name) for name in ("s1", "s4", "s6")]
    decided = [
        (end // 3, "erase", erasing(1, ErasedScope.SESSION, "s7", later)),
        (end // 2, "erase", erasing(2, ErasedScope.SUBJECT, "ada", later, sessions=known)),
        (end - 30, "erase", erasing(3, ErasedScope.SUBJECT, "late", START_MS + 40 * 20)),
        (end + 20, "erase", erasing(4, ErasedScope.SUBJECT, "cy", later)),
        (end + 20, "erase", erasing(5, ErasedScope.SESSION, "session-3", later)),
    ]
    again = [{**one, "timestamp": "2099-01-01T00:00:00.000Z"} for one in events[: end // 3]]
    dice = random.Random(6)
    report = verified(laid_out(paced([*events, *again], decided), dice), dice, strict=strict)
    assert not report.faults
    assert report.outcomes["rejected.erased"] > 10
    assert report.compared["marks of erasures"] == 5 * 4
    assert report.compared["artifact records"] > 10


def test_they_agree_on_what_is_erased_where_little_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds drop evidence before its erasure comes, and endings reach statements only until a word is common."""
    for module in ("hmx_pipeline.stages.pattern_state", "tests.verifier.patterns"):
        monkeypatch.setattr(f"{module}.PATTERN_CONTRIBUTIONS", 3)
    monkeypatch.setitem(ending_index._MOST, False, 2)
    monkeypatch.setattr("tests.verifier.patterns.KNOWLEDGE_TOUCHED", 2)
    test_they_agree_on_what_is_erased_whenever_that_is(strict=False)


def decisions_on(events: Sequence[Json], both: Sequence[Json], dice: random.Random) -> list[tuple[int, str, bytes]]:
    """Rulings, archives and imports, before and after the erasure of the tenant."""
    decided = [(len(both) // 3, "ruling", ruling(one, 0)) for one in rulings(events, dice, 5)]
    found = {one["metadata"]["pattern"]: one for one in artifacts_of(both, 1) if one["tenant_id"] == "acme"}
    for n, (pattern, one) in enumerate(sorted(found.items())):
        gone = Archive(tenant_id="acme", pattern=pattern, artifact_id=one["artifact_id"])
        decided.append((len(both) * (n % 4) // 3, "archive", archive(gone, 0, START_MS)))
    given = importing(gift_of("x-acme-runbook/failover"), 0, START_MS)
    return decided + [(at, "import", given) for at in (9, len(both) + 9)]


@BOTH
@pytest.mark.parametrize("ruled", [True, False], ids=["ruled on", "as it is"])
def test_they_agree_on_a_tenant_that_is_erased_as_a_whole(ruled: bool, strict: bool) -> None:
    events, others = told(7), [one for n in range(8) for one in session(n, "globex")]
    dice = random.Random(7)
    both = interleaved([events, others], dice)
    erased = erasing(1, ErasedScope.TENANT, "", START_MS + 10_000_000_000)
    decided = [(len(both) // 2, "erase", erased), (len(both) + 10, "erase", erased.replace(b"e-1", b"e-2"))]
    decided += decisions_on(events, both, dice) if ruled else []
    report = verified(laid_out(paced(both, decided), dice), dice, strict=strict)
    assert not report.faults


@BOTH
def test_they_agree_on_what_operators_rule(strict: bool) -> None:
    """Before the evidence, while it comes, afterwards and on what is erased then."""
    (events, made), dice = ruled(8, 12), random.Random(8)
    decided = [(n * len(events) // 10, "ruling", ruling(one, 0)) for n, one in enumerate(made)]
    for n, one in enumerate(made):  # a subject rules on the own memory, before the operator or after
        if whose := scope_of(split_key(one.pattern)[1])[0]:
            own = one.model_copy(update={"verb": RulingVerb.RETRACT, "stated": None, "subject": whose})
            decided.append((n * len(events) // 10 + dice.choice([-9, 9]), "ruling", ruling(own, 0)))
    unreadable = made[0].model_copy(update={"pattern": "fact"})
    decided.append((5, "ruling", ruling(unreadable, 0)))
    for n, name in enumerate(("ada", "bob")):
        at = len(events) - 20 + 60 * n
        decided.append((at, "erase", erasing(n, ErasedScope.SUBJECT, name, START_MS + 10_000_000_000)))
    for n in (2, 7, 12):
        erased = erasing(n, ErasedScope.SESSION, f"s{n}", START_MS + 10_000_000_000)
        decided.append((len(events) // 4 + 60 * n, "erase", erased))
    report = verified(laid_out(paced(events, decided), dice), dice, strict=strict)
    assert not report.faults
    assert report.compared["knowledge records"] > 30


def one_statement(*decided: tuple[str, bytes | None]) -> Report:
    """And what is decided on it since, in one partition."""
    sent = [Sent(0, orjson.dumps(one), one) for one in SAID_ONCE]
    sent += [Sent(PACE_MS * n, control=kind, value=value) for n, (kind, value) in enumerate(decided, 1)]
    dice = random.Random(1)
    return verified(lay_out(sent, 1, dice), dice, partitions=1)


def retracted() -> Ruling:
    (one,) = rulings(SAID_ONCE, random.Random(1), 1)
    return one.model_copy(update={"verb": RulingVerb.RETRACT})


SAID_ONCE = said("s1", "We use Redis.", at=0)
BARRIER = ("barrier", None)
GONE = ("erase", erasing(1, ErasedScope.SESSION, "s1", START_MS + 10_000_000_000))
ALL_GONE = ("erase", erasing(2, ErasedScope.TENANT, "", START_MS + 10_000_000_000))
ALL_GONE_AGAIN = ("erase", erasing(3, ErasedScope.TENANT, "", START_MS + 10_000_000_000))


def test_a_retraction_stays_sealed_where_nothing_is_left_of_what_it_is_about() -> None:
    ruled = ("ruling", ruling(retracted(), 0))
    assert not one_statement(BARRIER, ruled, GONE, BARRIER).faults
    assert not one_statement(BARRIER, ruled, GONE, BARRIER, ALL_GONE, BARRIER).faults


def test_a_tenant_of_which_nothing_is_left_is_erased_again_at_last() -> None:
    assert not one_statement(BARRIER, ALL_GONE, ALL_GONE_AGAIN).faults


def test_what_is_retracted_may_come_and_go_without_a_word() -> None:
    """Its session comes again, first without it."""
    events = said("s1", "We no longer use Redis.", "We use Redis.", at=0)
    (made,) = rulings(events, random.Random(0), 1)
    decided = ruling(made.model_copy(update={"verb": RulingVerb.RETRACT}), 0)
    sent = [Sent(n, orjson.dumps(one), one) for n, one in enumerate(events)]
    sent += [Sent(100, control="barrier"), Sent(150, control="ruling", value=decided), Sent(2 * DAY_MS, control="tick")]
    for n, one in enumerate(events):
        at = 2 * DAY_MS + PACE_MS * (n + 1)
        sent += [Sent(at, orjson.dumps(one), one), Sent(at + 50, control="barrier")]
    dice = random.Random(1)
    assert not verified(lay_out(sent, 1, dice), dice, partitions=1).faults


def test_what_was_imported_is_said_once_more_between_two_words_of_the_tenants_erasure() -> None:
    """Another partition's word lets it speak with the very record that takes it."""
    given = importing(gift_of("x-acme-runbook/failover"), 0, START_MS)
    told = [Sent(0, control="import", value=given), Sent(PACE_MS, control="erase", value=ALL_GONE[1])]
    for seed in range(8):
        dice = random.Random(seed)
        logs = lay_out([*told, Sent(2 * PACE_MS, control="barrier")], 2, dice)
        assert not verified(logs, dice, partitions=2).faults


@pytest.mark.parametrize(
    ("of", "name", "fault"),
    [
        (PatternCompiling, "_keep", lambda _, tx, key, *__: tx.put(key, None)),
        (PatternCompiling, "keep_sealed", lambda *_: None),
        (PatternState, "only_decided", False),
    ],
    ids=["nothing", "too long", "readable"],
)
def test_a_stage_that_keeps_a_retraction_otherwise_is_found(
    monkeypatch: pytest.MonkeyPatch, of: type, name: str, fault: Any
) -> None:
    monkeypatch.setattr(of, name, fault)
    decided = [BARRIER, ("ruling", ruling(retracted(), 0)), GONE, BARRIER]
    report = one_statement(*decided, *[ALL_GONE, BARRIER] * (name == "keep_sealed"))
    assert report.faults


@cache
def corrections() -> tuple[list[Json], list[Ruling]]:
    """Of what turns out to be somebody's; some of it rests on other sessions, too."""
    events, dice = told(10), random.Random(10)
    late = {one["session_id"] for one in events if one.get("metadata", {}).get("subject_id") == "late"}
    unnamed = [one | {"metadata": {}} for one in events]
    made = rulings([one for one in unnamed if one["session_id"] in late], dice, 9) + rulings(unnamed, dice, 12)
    return events, [one for one in made if one.stated is not None]


def corrected(*, team: bool = False) -> list[Sent]:
    """Before it is known whose it is, and long after."""
    events, stated = corrections()
    decided = [(n * len(events) // 5, "ruling", ruling(one, 0)) for n, one in enumerate(stated)]
    if team:
        decided.append((0, "tenant", setting(TenantSettings(tenant_id="acme", sharing="team"), 0, START_MS)))
    return paced(events, decided)


@BOTH
@pytest.mark.parametrize("team", [False, True], ids=["subjects", "team"])
def test_they_agree_on_corrections_of_what_turns_out_to_be_somebodys(team: bool, strict: bool) -> None:
    dice = random.Random(10)
    assert not verified(laid_out(corrected(team=team), dice), dice, strict=strict).faults


def test_a_stage_that_shares_a_correction_of_what_is_somebodys_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sent, dice = corrected(), random.Random(10)
    monkeypatch.setattr(ClaimedEvidence, "of", lambda *_: {})
    assert verified(laid_out(sent, dice), dice).faults


def test_they_agree_where_a_pattern_has_room_for_few_rulings(monkeypatch: pytest.MonkeyPatch) -> None:
    ruled(8, 12)  # made before the bound holds: other tests have it too
    for module in ("hmx_pipeline.compiler.knowledge.rulings", "tests.verifier.patterns"):
        monkeypatch.setattr(f"{module}.PATTERN_RULINGS", 1)
    test_they_agree_on_what_operators_rule(strict=False)


def keeping(text: str, **more: Any) -> bytes:
    return retaining(Retention.told("acme", text).model_copy(update=more), 0, START_MS)


@cache
def of_many_ages() -> tuple[list[Json], dict[str, int], list[Ruling]]:
    """Sessions, how many days old each is, and rulings."""
    events, dice = told(9, 14), random.Random(9)
    ages = {one["session_id"]: dice.choice([0, 0, 20, 35, 60]) for one in events}
    for one in events:
        one["timestamp"] = format_ms((milliseconds(one["timestamp"]) or 0) - ages[one["session_id"]] * DAY_MS)
    return events, ages, rulings(events, dice, 8)


def aged(policies: Sequence[str]) -> list[Sent]:
    """Rulings before, some of them too old, some later; days pass, and the past comes again."""
    events, ages, made = of_many_ages()
    decided = [(n * len(events) // 10, "ruling", ruling(one, 0)) for n, one in enumerate(made)]
    decided += [
        (n * len(events) // 10 + 5, "ruling", ruling(one.model_copy(update={"at": START_MS - 50 * DAY_MS}), 0))
        for n, one in enumerate(made[:4])
    ]
    for n, text in enumerate(policies):
        decided.append((len(events) // 2 + 40 * n, "tenant", keeping(text)))
    decided.append((len(events), "tenant", keeping("", days=None, cuts={"sessions": START_MS - 30 * DAY_MS})))
    sent = paced(events, decided)
    days = [sent[-1].at + n * DAY_MS for n in range(1, 40)]
    sent += [Sent(at + n, control=kind) for at in days for n, kind in enumerate(("tick", "barrier", "tick"))]
    sent += [one._replace(at=one.at + days[-1]) for one in sent if one.event and ages[one.event["session_id"]]]
    return sent


@BOTH
@pytest.mark.parametrize(
    "policies",
    [
        ("all:30d",),
        ("knowledge:30d,message:2d", "artifacts:40d"),
        ("all:300d,sessions:9", "sessions:9"),
        ("all:90d", ""),
    ],
)
def test_they_agree_on_what_a_retention_leaves_whenever_it_is_set(policies: Sequence[str], strict: bool) -> None:
    dice = random.Random(9)
    report = verified(laid_out(aged(policies), dice), dice, strict=strict)
    assert not report.faults
    assert report.compared["marks of erasures"] > 8
    assert report.compared["artifact records"] > 10


@pytest.mark.parametrize("lost", ["_retain", "taken_by"])
def test_a_stage_that_keeps_what_a_policy_takes_is_found(monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    sent, dice = aged(["all:30d"]), random.Random(9)
    monkeypatch.setattr(PatternsFold if lost == "_retain" else TenantRules, lost, lambda *_: "")
    report = verified(laid_out(sent, dice), dice)
    assert {fault.kind for fault in report.faults} >= {Kind.UNFOUNDED, Kind.DIFFERING}
