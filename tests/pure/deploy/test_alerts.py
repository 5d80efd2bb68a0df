"""Alerts name what processes export, and each has a runbook; the chart is of this version and knows the settings."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hmx_pipeline.cli.doctor import _PROCESSES as PROCESSES
from hmx_pipeline.service import documentation
from hmx_pipeline.settings import Settings
from tests.pure.deploy.test_dashboards import EXPORTED

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy" / "helm" / "hmx"
RULES: list[dict[str, Any]] = yaml.safe_load((CHART / "alerts.yml").read_text())["groups"][0]["rules"]
RUNBOOKS = ROOT / "docs" / "how-to" / "runbooks.md"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_every_metric_and_label_of_an_alert_is_exported(rule: dict[str, Any]) -> None:
    expression, told = rule["expr"], rule["annotations"]["summary"]
    names = re.findall(r"\bhmx_\w+", expression)
    assert names or "up{" in expression
    assert set(names) <= EXPORTED.keys()
    labels = {label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")}
    labels |= set(re.findall(r"absent\(\w+\{(\w+)=\"", expression))
    asked = labels | set(re.findall(r"(\w+)=~?\"", expression))
    for name in names:
        assert asked - {"stage", "outcome", "reason", "result"} <= EXPORTED[name]
    assert asked <= set().union(*(EXPORTED[name] for name in names)) | {"job"}
    shown = set(re.findall(r"\$labels\.(\w+)", told))
    assert shown <= labels | ({"instance"} if "up{" in expression else set())
    assert rule["labels"]["severity"] in {"warning", "critical"}


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    heads = re.findall(r"^## (Hmx\w+)$", RUNBOOKS.read_text(), re.MULTILINE)
    assert heads == [rule["alert"] for rule in RULES]


def test_the_address_of_a_runbook_is_one_that_the_service_shows() -> None:
    sections = {f"/docs/{one.page}#{one.slug}" for one in documentation.sections()}
    for rule in RULES:
        base, path = rule["annotations"]["runbook_url"].split("8080")
        assert base == "http://127.0.0.1:", "the chart and the file's first lines name it"
        assert path in sections
        assert path.endswith(f"#{rule['alert'].lower()}")


def test_whether_a_process_is_there_at_all_is_asked_of_each() -> None:
    """One that is gone from the targets exports nothing that could be low."""
    (missing,) = (rule["expr"] for rule in RULES if rule["alert"] == "HmxProcessMissing")
    assert sorted(re.findall(r'absent\(hmx_kafka_answers\{process="(\w+)"\}\)', missing)) == sorted(PROCESSES)


def test_prometheus_reads_the_alerts_of_the_chart() -> None:
    scraped = yaml.safe_load((ROOT / "deploy" / "prometheus.yml").read_text())
    assert [(ROOT / "deploy" / file).resolve() for file in scraped["rule_files"]] == [CHART / "alerts.yml"]


def test_the_schema_knows_every_value_and_no_other() -> None:
    def paths(values: Any, schema: dict[str, Any], at: str = "") -> None:
        known = schema.get("properties")
        if known is None or schema.get("additionalProperties", True) is not False:
            return
        assert values.keys() == known.keys() - {"global"}, at
        for name, part in values.items():
            paths(part, known[name], f"{at}.{name}")

    paths(VALUES, SCHEMA)


def test_the_chart_is_of_this_version() -> None:
    found = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert found is not None
    assert chart["version"] == chart["appVersion"] == found[1]


def test_every_setting_that_the_templates_give_exists() -> None:
    given = {
        name for path in (CHART / "templates").iterdir() for name in re.findall(r"\bHMX_[A-Z_]+", path.read_text())
    }
    known = {f"HMX_{name.upper()}" for name in Settings.__slots__} | {"HMX_KAFKA_CONFIG", "HMX_STATE"}
    assert {name.removesuffix("_FILE") for name in given} <= known
    defaults = Settings()
    ports = {"worker": defaults.worker_port, "materialiser": defaults.materialiser_port}
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    for name, port in ports.items():
        assert f'"{name}"' in templates
        assert str(port) in templates
    assert VALUES["service"]["port"] == defaults.service_port
