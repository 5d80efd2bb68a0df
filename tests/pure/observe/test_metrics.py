"""Metrics: outcomes apart from other effects, gauges only of what there is, labels that stay few."""

from collections.abc import Iterator

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.parser import text_string_to_metric_families

from hmx_pipeline.observe.freshness import behind, verdict
from hmx_pipeline.observe.metrics import METRICS, count_effects, exposition, replace

LABELS = {
    "stage", "partition", "topic", "outcome", "reason", "name", "result", "cause", "route", "status", "kind", "hook",
    "answer", "policy", "process",
}  # fmt: skip


def every() -> Iterator[Counter | Gauge | Histogram]:
    yield from (value for value in vars(METRICS).values() if isinstance(value, Counter | Gauge | Histogram))


def read(name: str, refresh: object = lambda: None) -> dict[tuple[str, ...], float]:
    """Values of the labels, in the order of the labels' names → the sample's value."""
    text = exposition(refresh).decode()  # type: ignore[arg-type]
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


def test_labels_are_few_and_never_a_tenant_or_a_session() -> None:
    for metric in every():
        assert set(metric._labelnames) <= LABELS, metric._name
        assert metric._documentation


def test_a_rejection_is_counted_once_under_its_reason() -> None:
    count_effects("of-test", {"released": 2, "rejected": 3, "rejected.not_json": 3, "window_full": 1})
    outcomes = {key[:2]: n for key, n in read("hmx_stage_outcomes_total").items() if key[2] == "of-test"}
    assert outcomes == {("released", ""): 2, ("rejected", "not_json"): 3}
    assert read("hmx_stage_effects_total")["window_full", "of-test"] == 1


def test_a_partition_that_was_given_up_is_no_longer_there() -> None:
    read("", lambda: replace(METRICS.lag_records, {("sessions", "0"): 5, ("sessions", "1"): 6}))
    found = read("hmx_partition_lag_records", lambda: replace(METRICS.lag_records, {("sessions", "1"): 7}))
    replace(METRICS.lag_records, {})
    assert found == {("1", "sessions"): 7}


def test_nothing_is_behind_where_nothing_is_left_to_read() -> None:
    assert behind("t/0", 7, 7, (0,), 99_000).seconds == 0
    assert verdict([behind("t/0", 7, 7, (0,), 99_000)], 60) == (True, "nothing is behind")


def test_the_oldest_unread_record_is_as_old_as_the_latest_moment_known_to_lie_before_it() -> None:
    found = behind("t/0", 7, 9, (1_000, 61_000), 99_000)
    assert (found.records, found.seconds) == (2, 38)


def test_a_clock_that_goes_ahead_makes_nothing_negative() -> None:
    assert behind("t/0", 7, 9, (100_000,), 99_000).seconds == 0


def test_every_partition_beyond_the_bound_is_named_the_worst_first() -> None:
    found = [behind(f"t/{n}", 7, 9, (99_000 - n * 50_000,), 99_000) for n in range(4)]
    fresh, why = verdict(found, 60)
    assert not fresh
    assert [line.partition(":")[0] for line in why.splitlines()[1:]] == ["t/3", "t/2"]
    assert "60 s" in why
