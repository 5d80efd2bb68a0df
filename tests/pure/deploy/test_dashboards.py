"""Prometheus' configuration and Grafana's dashboard name what the processes export, with labels that it has."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase

from hmx_pipeline.observe.metrics import METRICS

DEPLOY = Path(__file__).parents[3] / "deploy"
BOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "hmx.json").read_text())
SCRAPED = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
COMPOSE = yaml.safe_load((DEPLOY.parent / "docker-compose.yml").read_text())
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
ADDED = {"instance", "job"}
"""Labels that Prometheus adds."""


def exported() -> dict[str, set[str]]:
    """A sample's name → its labels."""
    found = {}
    for metric in vars(METRICS).values():
        if isinstance(metric, MetricWrapperBase):
            (described,) = metric.describe()
            for suffix in SUFFIXES[described.type]:
                labels = {*metric._labelnames, *(["le"] if suffix == "_bucket" else [])}
                found[f"{described.name}{suffix}"] = labels | ADDED
    return found


EXPORTED = exported()


def expressions() -> Iterator[tuple[str, str, str]]:
    for panel in BOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]


@pytest.mark.parametrize(("title", "expression", "legend"), list(expressions()))
def test_every_metric_and_label_of_the_dashboard_is_exported(title: str, expression: str, legend: str) -> None:
    names = re.findall(r"\bhmx_\w+", expression)
    assert names
    assert set(names) <= EXPORTED.keys()
    labels = {label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")}
    labels |= set(re.findall(r"(\w+)=~?\"", expression)) | set(re.findall(r"\{\{(\w+)\}\}", legend))
    for name in names:
        assert labels <= EXPORTED[name], (title, name)
    assert expression.count("(") == expression.count(")")


@pytest.mark.parametrize(("title", "expression", "legend"), list(expressions()))
def test_counters_are_looked_at_as_they_grow(title: str, expression: str, legend: str) -> None:
    for name in re.findall(r"\bhmx_\w+(?:_total|_bucket)\b", expression):
        assert re.search(rf"(rate|increase)\({name}(\{{[^}}]*\}})?\[", expression), (title, name)


def test_the_dashboard_shows_what_the_page_shows() -> None:
    shown = " ".join(expression for _, expression, _ in expressions())
    for name in (
        "hmx_stage_outcomes_total", "hmx_stage_freshness_seconds_bucket", "hmx_materialiser_freshness_seconds_bucket",
        "hmx_partition_lag_seconds", "hmx_materialiser_lag_seconds", "hmx_partition_waiting", "hmx_stage_effects_total",
    ):  # fmt: skip
        assert name in shown


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = BOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for at in (panel["gridPos"] for panel in panels)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_prometheus_scrapes_every_process_of_the_compose_file_on_its_port() -> None:
    targets = {
        target for job in SCRAPED["scrape_configs"] for each in job["static_configs"] for target in each["targets"]
    }
    expected = set()
    for name, service in COMPOSE["services"].items():
        for variable, port in service.get("environment", {}).items():
            if variable == f"HMX_{name.upper()}_PORT":
                expected.add(f"{name}:{port}")
    assert targets == expected
    assert len(expected) == 3
