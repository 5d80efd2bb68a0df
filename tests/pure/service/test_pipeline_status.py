"""How the pipeline stands, from what it has counted and what its processes say of themselves."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.observe.process_reader import gauges
from hmx_pipeline.queries.pipeline_status import STAGE_FRESHNESS, WAITING, counted, explained, freshness
from hmx_pipeline.service.service_routes import MemoryCheck
from hmx_pipeline.settings import Settings, SettingsError
from hmx_pipeline.store.atomic_blocks import TornStateError

SESSIONS = {
    "counts": {"released": 7, "rejected": 3, "rejected.not_json": 2, "rejected.too_large": 1, "window_full": 4},
    "partitions": [{"waiting": 2}, {"waiting": None}],
}
PATTERNS = {"counts": {"rejected": 1, "rejected.too_large": 1, "artifact_draft": 5}, "partitions": []}


def test_every_outcome_has_its_count_and_each_other_name_stands_once_with_what_it_means() -> None:
    told = counted({"sessions": SESSIONS, "patterns": PATTERNS})
    assert [one["name"] for one in told["outcomes"]] == list(Outcome)
    counts = {one["name"]: one["count"] for one in told["outcomes"] if one["count"]}
    assert counts == {"released": 7, "rejected": 3, "waiting": 2}
    assert [(one["name"], one["count"]) for one in told["rejections"]] == [("not_json", 2), ("too_large", 2)]
    assert [(one["name"], one["count"]) for one in told["effects"]] == [("artifact_draft", 5), ("window_full", 4)]
    assert all(one["meaning"] for kind in told.values() for one in kind)


def test_without_any_answer_every_outcome_is_nothing() -> None:
    told = counted({})
    assert {one["count"] for one in told["outcomes"]} == {0}
    assert told["rejections"] == told["effects"] == []


def of_a_process(*seconds: float) -> list[Sample]:
    registry = CollectorRegistry()
    histogram = Histogram(STAGE_FRESHNESS, "", ["stage"], buckets=(0.1, 1), registry=registry)
    for each in seconds:
        histogram.labels("sessions").observe(each)
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return [sample for family in families for sample in family.samples]


def test_freshness_is_of_all_processes_together() -> None:
    found = freshness([*of_a_process(0.05, 0.5), *of_a_process(0.5, 7)])
    assert found == {"sessions": [(0.1, 1), (1.0, 3), (float("inf"), 4)]}
    assert freshness([]) == {}


def test_a_gauge_is_known_by_stage_and_partition() -> None:
    samples = [Sample(WAITING, {"stage": "sessions", "partition": "3"}, 5.0), Sample("another", {}, 1.0)]
    assert gauges(samples, WAITING) == {(WAITING, "sessions", 3): 5.0}


def test_processes_are_named_with_their_addresses() -> None:
    named = Settings(processes="worker=http://w:8081/, materialiser=http://m:8082")
    assert named.addresses() == {"worker": "http://w:8081", "materialiser": "http://m:8082"}
    assert Settings().addresses() == {}


@pytest.mark.parametrize("said", ["worker", "=http://w:1", "worker=w:1", "worker=file:///etc/passwd"])
def test_processes_of_another_form_are_refused(said: str) -> None:
    with pytest.raises(SettingsError, match="HMX_PROCESSES"):
        Settings(processes=said).addresses()


class TornStore:
    def __init__(self) -> None:
        self.servers = [self]

    def positions(self) -> Any:
        raise TornStateError("delete the pipeline's keys in Redis")


def test_memory_that_is_torn_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = TornStore()
    monkeypatch.setattr("hmx_pipeline.service.service_routes.ConsumerLag", lambda *_: None)
    assert "delete the pipeline's keys" in str(explained(store.positions))
    assert "delete the pipeline's keys" in str(MemoryCheck(Settings(kafka_bootstrap="none:1"), store).why_not())
