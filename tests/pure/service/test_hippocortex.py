"""What the dialect of the Hippocortex clients mints, counts and lets in."""

import asyncio
import itertools
import threading
import uuid
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.compiler.registry import ARTIFACT_TYPES
from hmx_pipeline.contracts.ids import keyed_id
from hmx_pipeline.contracts.options import Section
from hmx_pipeline.kafka.topic_files import KafkaUnreachableError
from hmx_pipeline.runtime.barriers import LackingError
from hmx_pipeline.service.fair_turns import FairTurns
from hmx_pipeline.service.hippocortex import learn, synthesize
from hmx_pipeline.service.hippocortex.answer_envelope import speaks
from hmx_pipeline.service.hippocortex.learn import Active, Learner, LearnOptions, compared
from hmx_pipeline.service.hippocortex.minting import EPOCH_MS, LONGEST, Hold, random_id
from hmx_pipeline.service.hippocortex.usage import KEPT_MINUTES, NAMES, TENANTS, Usage
from hmx_pipeline.service.problems import ProblemError, ProblemKind
from hmx_pipeline.settings import Settings

NOW_MS = 1_790_000_000_000


@pytest.mark.requirement("X23")
def test_every_section_and_every_type_of_artifact_has_a_name_for_the_clients() -> None:
    names = set(get_args(synthesize.Asked))
    assert {section.clients_name for section in Section} <= names
    assert {kind.clients_name for kind in ARTIFACT_TYPES.values()} <= names


@given(st.integers(1, 2**53 - 50), st.integers(1, 50))
@pytest.mark.requirement("Y07")
def test_minted_sequences_only_rise(first: int, count: int) -> None:
    hold = Hold(first, "me")
    minted = [hold.next() for _ in range(count)]
    assert minted[0].sequence == first
    assert all(a.sequence < b.sequence and a.ms <= b.ms for a, b in itertools.pairwise(minted))
    assert all(len(str(one.sequence)) <= len(str(LONGEST.sequence)) for one in minted)


@pytest.mark.requirement("Y07")
def test_a_minted_sequence_stays_below_what_a_double_holds_until_2089() -> None:
    in_2089 = 3_755_289_600_000
    first = (in_2089 - EPOCH_MS) * 4096
    assert Hold(first, "me").next() == (first, in_2089)
    assert first < 2**53


@pytest.mark.requirement("Y07")
def test_ten_thousand_in_one_millisecond_all_differ() -> None:
    hold = Hold(1, "me")
    assert len({hold.next().sequence for _ in range(10_000)}) == 10_000


def test_ids_are_uuids_of_their_version_and_sort_by_time() -> None:
    first, second = random_id(NOW_MS), random_id(NOW_MS + 1)
    assert (uuid.UUID(first).version, first < second, random_id(NOW_MS) == first) == (7, True, False)
    keyed = keyed_id("acme", "s1", "k")
    assert (uuid.UUID(keyed).version, keyed) == (8, keyed_id("acme", "s1", "k"))
    assert len({keyed, keyed_id("acme", "s2", "k"), keyed_id("globex", "s1", "k"), keyed_id("acme", "s1k", "")}) == 4


@pytest.mark.parametrize(
    ("path", "ours"),
    [
        ("/v1/capture", True),
        ("/v1/nothing", True),
        ("/v1/hmx", False),
        ("/v1/hmx/x", False),
        ("/v1/hmxy", True),
        ("/", False),
    ],
)
def test_the_native_routes_are_not_answered_in_envelopes(path: str, ours: bool) -> None:
    assert speaks({"path": path}) is ours


def test_usage_is_counted_by_the_minute_and_bounded() -> None:
    now = [60.0 * 1_000_000]
    usage = Usage(lambda: now[0])
    usage.count("acme", "ingested", 3)
    now[0] += 60 * 59
    usage.count("acme", "ingested")
    assert (usage.since("acme", 60)["ingested"], usage.since("acme", 59)["ingested"]) == (4, 1)
    assert usage.since("globex", 60)["ingested"] == 0
    now[0] += 60 * (KEPT_MINUTES - 1)
    usage.count("acme", "ingested")
    assert usage.since("acme", 10 * KEPT_MINUTES)["ingested"] == 2
    for n in range(2 * NAMES):
        usage.count("acme", f"type:{n}")
    counts = usage.since("acme", 1)
    assert len(counts) <= NAMES + 1
    assert sum(n for name, n in counts.items() if name.startswith("type:")) == 2 * NAMES
    for n in range(TENANTS):
        usage.count(f"t{n}", "errors")
    assert usage.since("acme", 1)["ingested"] == 0


def active(name: str, kind: str = "task_schema", confidence: float = 0.8) -> Active:
    return Active(name, kind, confidence, frozenset())


@pytest.mark.requirement("O-06")
def test_a_chain_is_created_once_and_updated_where_its_version_is_another_or_gone() -> None:
    before = {"same": active("a"), "newer": active("b"), "gone": active("c")}
    now = {"same": active("a"), "newer": active("b2", confidence=0.5), "new": active("d", "failure_playbook")}
    types = {"failure_playbook": 1, "task_schema": 2}
    assert compared(before, now, LearnOptions()) == {"created": 1, "updated": 2, "unchanged": 1, "byType": types}
    assert compared(now, now, LearnOptions()) == {"created": 0, "updated": 0, "unchanged": 3, "byType": types}
    some = compared(before, now, LearnOptions.model_validate({"artifactTypes": ["failure_playbook"]}))
    assert some == {"created": 1, "updated": 0, "unchanged": 0, "byType": {"failure_playbook": 1}}
    assert compared({}, now, LearnOptions.model_validate({"minPatternStrength": 0.6}))["created"] == 2


def test_a_key_that_is_bound_to_a_subject_learns_no_counts_of_others() -> None:
    own = {"owner": "u1"}, {"owner": "u2"}, {}
    now = {f"a{n}": active(f"a{n}")._replace(**more) for n, more in enumerate(own)}
    assert learn.seen(now, "u1").keys() == {"a0", "a2"}
    assert learn.seen(now, "u3").keys() == {"a2"}
    assert learn.seen(now, None) == now


class Nothing:
    """A memory without artifacts."""

    def all_artifacts(self, *_: Any) -> list[Any]:
        return []

    def positions(self) -> dict[str, int]:
        return {}


def learner() -> Learner:
    nothing: Any = Nothing()
    return Learner(Settings(), nothing, FairTurns(2, 2))


def test_all_of_a_tenant_who_ask_while_its_barrier_is_under_way_share_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    barriers, go_on = [], threading.Event()

    async def asking() -> list[Any]:
        loop, begun, ours = asyncio.get_running_loop(), asyncio.Event(), learner()
        ours._told.put("acme", {}, 1)

        def waiting(*_: Any) -> None:
            barriers.append(1)
            loop.call_soon_threadsafe(begun.set)
            assert go_on.wait(60)

        monkeypatch.setattr(learn, "wait_for_tenant", waiting)
        first = asyncio.create_task(ours.run("acme"))
        await begun.wait()
        rest = [asyncio.create_task(ours.run("acme")) for _ in range(30)]
        await asyncio.sleep(0)  # all of them have called
        go_on.set()
        return await asyncio.gather(first, *rest)

    assert all(whole for _, _, whole in asyncio.run(asking()))
    assert len(barriers) == 2


def test_a_run_is_partial_where_a_stage_lags_or_the_answer_is_due_and_fails_where_no_barrier_is_appended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on = threading.Event()

    def lagging(*_: Any) -> None:
        raise LackingError("a stage")

    def unreachable(*_: Any) -> None:
        raise KafkaUnreachableError("nobody answers")

    async def asking() -> Any:
        try:
            return (await learner().run("acme"))[2]
        finally:
            go_on.set()

    monkeypatch.setattr(learn, "wait_for_tenant", lagging)
    assert asyncio.run(asking()) is False
    monkeypatch.setattr(learn, "wait_for_tenant", unreachable)
    with pytest.raises(ProblemError) as raised:
        asyncio.run(asking())
    assert raised.value.kind is ProblemKind.KAFKA_UNAVAILABLE
    go_on.clear()
    monkeypatch.setattr(learn, "wait_for_tenant", lambda *_: go_on.wait(60))
    monkeypatch.setattr(learn, "ANSWER_S", 0.05)
    assert asyncio.run(asking()) is False
