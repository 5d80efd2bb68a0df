"""The unmodified Hippocortex client on the whole pipeline: what it captures is learnt, and comes back in packs."""

import asyncio
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest
from hippocortex import CaptureEvent, CaptureResult, Hippocortex, LearnOptions, SyncHippocortex, SynthesizeOptions
from hippocortex.types import Artifact

from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.runtime.barriers import output_ends, wait_for_reader
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.topology import EVENTS, EVIDENCE
from tests.support.memory import empty
from tests.support.pipeline import new_settings, running
from tests.support.topics import values
from tests.support.waiting import PATIENCE_S

GOAL = "Deploy the payments service to staging"
ERROR = "namespace payments not found"
MANY = 500


@pytest.fixture(scope="module")
def settings(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    made = new_settings(kafka, redis_url)
    with running(made, tmp_path_factory.mktemp("logs"), "worker", "materialiser", "service", partitions=2):
        yield made


@pytest.fixture(scope="module")
def url(settings: Settings) -> str:
    return f"{settings.service_url}/v1"


@pytest.fixture
def hx(url: str) -> Iterator[SyncHippocortex]:
    with SyncHippocortex("hx_test_acme", base_url=url, timeout=PATIENCE_S) as client:
        yield client


def task(session: str) -> list[CaptureEvent]:
    """A deployment that fails once, is mended and then goes well, as the clients write it."""
    build, apply, mend = ({"tool_name": name} for name in ("build_image", "apply_manifest", "create_namespace"))
    said = [
        ("message", {"role": "user", "content": GOAL}),
        ("tool_call", {**build, "input": {"service": "payments"}}),
        ("tool_result", {**build, "output": "built"}),
        ("tool_call", {**apply, "input": {"env": "staging"}}),
        ("tool_result", {**apply, "output": ERROR, "success": False}),
        ("error", {"error_type": "NotFound", "message": ERROR}),
        ("tool_call", {**mend, "input": {"name": "payments"}}),
        ("tool_result", {**mend, "output": "created", "success": True}),
        ("tool_call", {**apply, "input": {"env": "staging"}}),
        ("tool_result", {**apply, "output": "applied", "success": True}),
        ("message", {"role": "user", "content": "Thanks, that works perfectly"}),
    ]
    return [CaptureEvent(kind, session, payload) for kind, payload in said]  # type: ignore[arg-type]


def learnt(hx: SyncHippocortex, options: LearnOptions | None = None) -> tuple[int, int, int]:
    """Created, updated and unchanged by runs up to one that is whole: a busy machine may need several."""
    created = updated = 0
    while True:
        run = hx.learn(options)
        created, updated = created + run.artifacts_created, updated + run.artifacts_updated
        if run.status == "completed":
            assert sum(run.artifacts_by_type.values()) >= run.artifacts_unchanged
            return created, updated, run.artifacts_unchanged


@pytest.mark.requirement("O-06", "O-07", "O-04")
def test_what_is_captured_is_learnt_once_and_told_in_its_sections(hx: SyncHippocortex, url: str) -> None:
    assert learnt(hx) == (0, 0, 0)
    for n in range(8):
        assert hx.capture_batch(task(f"s{n}")).ingested == 11
    created, updated, _ = learnt(hx)
    assert created > 0
    assert updated == 0
    assert learnt(hx) == (0, 0, created)

    hx.capture_batch(task("s8"))
    assert learnt(hx, LearnOptions(artifact_types=["task_schema"])) == (0, 1, 0)

    whole = hx.synthesize(GOAL)
    assert "procedures" in {entry.section for entry in whole.entries}
    only = hx.synthesize(f"{GOAL}: {ERROR}", SynthesizeOptions(sections=["failures"], max_tokens=500))
    assert {entry.section for entry in only.entries} == {"failures"}
    assert only.budget.used <= 500

    ids = [source.source_id for entry in whole.entries for source in entry.provenance or ()]
    for name in ids:
        found = httpx.get(f"{url}/artifacts/{name}", headers={"Authorization": "Bearer hx_test_acme"})
        assert found.json()["data"]["id"] == name


@pytest.mark.requirement("O-07")
def test_what_was_stated_can_be_asked_for_once_it_is_learnt_and_every_id_resolves(
    hx: SyncHippocortex, url: str
) -> None:
    sentences = ("Our staging cluster runs on Nomad.", "Always run the linter before committing.")
    captured = [
        hx.capture(CaptureEvent("message", f"said {n}", {"role": "user", "content": sentence}))
        for n, sentence in enumerate(sentences)
    ]
    learnt(hx)
    facts, decisions, context = (
        hx.synthesize("What does the staging cluster run on?", SynthesizeOptions(sections=[section])).entries
        for section in ("facts", "decisions", "context")
    )
    assert any("Nomad" in entry.content for entry in facts)
    assert any("linter" in entry.content for entry in decisions)
    assert [{entry.section for entry in each} for each in (facts, decisions, context)] == [
        {"facts"},
        {"decisions"},
        {"context"},
    ]
    named = [source.source_id for entry in (*facts, *decisions, *context) for source in entry.provenance or ()]
    assert captured[0].event_id in named
    for name in named:
        found = httpx.get(f"{url}/artifacts/{name}", headers={"Authorization": "Bearer hx_test_acme"})
        assert Artifact.from_dict(found.json()["data"]).id == name


def test_what_one_tenant_learns_costs_others_nothing(settings: Settings, url: str) -> None:
    """Not a record, though their sessions have more to contribute; and a second time nothing at all."""
    with SyncHippocortex("hx_test_busy", base_url=url, timeout=PATIENCE_S) as other:
        for n in range(6):
            other.capture_batch(task(f"busy-{n}")[:6])
    with SyncHippocortex("hx_test_calm", base_url=url, timeout=PATIENCE_S) as own:
        own.capture_batch(task("calm")[:6])
        wait_for_reader(output_ends(settings), Store.open(settings).positions)
        before = written(settings)
        learnt(own)
        after = written(settings)
        added = after - before
        assert {tenant for tenant, _ in added} == {"calm"}
        assert added["calm", "barrier"] == 2, "one in its session's partition, and one that this forwards"
        assert 0 < added["calm", "contribution"] < 30
        learnt(own)
        assert written(settings) == after


def written(settings: Settings) -> Counter[tuple[str, str]]:
    """Tenant and kind of all events and evidence but ticks."""
    found: Counter[tuple[str, str]] = Counter()
    for one in values(settings, EVENTS):
        kind = one["event_type"].removeprefix("x-hmx-")
        found[one["content"].get("tenant_id", "") if kind == "barrier" else one["tenant_id"], kind] += kind != "tick"
    for one in values(settings, EVIDENCE):
        kind = one.get("kind", "contribution")
        found[one.get("tenant_id", ""), kind] += kind != "tick"
    return +found


@pytest.mark.slow
@pytest.mark.requirement("O-05", "Y07")
def test_five_hundred_captures_at_once_are_all_released_in_order_though_redis_is_emptied_half_way(
    settings: Settings, url: str
) -> None:
    async def all_at_once() -> list[CaptureResult]:
        async with Hippocortex("hx_test_crowd", base_url=url, timeout=PATIENCE_S) as client:

            async def capture(n: int) -> CaptureResult:
                if n == MANY // 2:
                    await asyncio.to_thread(empty, settings)
                sent = {"role": "user", "content": f"n {n}"}
                return await client.capture(CaptureEvent("message", "crowd", sent, {"idempotencyKey": f"k{n}"}))

            first = await asyncio.gather(*(capture(n) for n in range(MANY)))
            again = await asyncio.gather(*(capture(n) for n in range(0, MANY, 7)))
            assert [one.event_id for one in again] == [one.event_id for one in first[::7]]
            assert {one.status for one in again} == {"duplicate"}
            return first

    results = asyncio.run(all_at_once())
    wait_for_all(settings)
    store = Store.open(settings)
    held = [store.get_event("crowd", result.event_id, "crowd") for result in results]
    ours = sorted((event["metadata"]["hmx"] for event in held if isinstance(event, dict)), key=lambda h: h["sequence"])
    assert [own["release"] for own in ours] == [{"index": n, "run": 0, "late": False} for n in range(MANY)]
