"""The Helm chart as helm renders it: valid for the versions of Kubernetes it names, with no right it does not need."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from hmx_pipeline.kafka.answering import REACHED_S

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "hmx"
HELM = shutil.which("helm") or os.environ.get("HMX_HELM", "helm")
VERSIONS = ["1.27.0", "1.30.0", "1.33.0", "1.35.0"]
LEAST = {"kafka.bootstrap": "kafka:9092", "redis.urlSecret": "hmx-redis", "controlKeySecret": "hmx-control"}
ALL: dict[str, Any] = {
    "kafka": {
        "bootstrap": "kafka:9093",
        "clientSecrets": {"worker": "k-w", "materialiser": "k-m", "service": "k-s", "operator": "k-o"},
        "files": "kafka-ca",
    },
    "redis": {"urlSecret": "hmx-redis", "caSecret": "redis-ca"},
    "controlKeySecret": "hmx-control",
    "apiKeysSecret": "hmx-keys",
    "jwt": {"issuer": "https://login.example.com", "audience": "hmx", "ports": [443, 8443]},
    "archive": {"url": "s3://memory/hmx", "credentialsSecret": "hmx-archive", "ports": [443, 9000]},
    "settings": {"HMX_LOG_LEVEL": "DEBUG", "HMX_WINDOW_MS": 5000},
    "worker": {"autoscaling": {"enabled": True, "prometheus": "http://prometheus:9090"}},
    "service": {
        "autoscaling": {"enabled": True},
        "ingress": {"enabled": True, "className": "nginx", "host": "hmx.example.com", "tlsSecret": "tls"},
    },
    "toolbox": {"enabled": True, "claim": "hmx-files"},
    "retention": {"schedule": "30 0 * * *"},
    "monitoring": {"enabled": True, "labels": {"release": "prometheus"}},
    "networkPolicies": {
        "serviceFrom": [{"namespaceSelector": {"matchLabels": {"agents": "yes"}}}],
        "monitoringFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
    },
}

pytestmark = pytest.mark.chart


def helm(*words: str, values: Path | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    given = (
        ["-f", str(values)]
        if values
        else [part for name, value in LEAST.items() for part in ("--set", f"{name}={value}")]
    )
    return subprocess.run([HELM, *words, *given], capture_output=True, text=True, check=check)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chart") / "values.yaml"
    path.write_text(yaml.safe_dump(ALL))
    return path


@cache
def rendered(version: str, values: Path | None) -> list[dict[str, Any]]:
    done = helm("template", "hmx", str(CHART), "--namespace", "agents", "--kube-version", version, values=values)
    return [document for document in yaml.safe_load_all(done.stdout) if document]


@pytest.fixture(params=["least", "all"])
def objects(request: pytest.FixtureRequest, everything: Path) -> list[dict[str, Any]]:
    return rendered(VERSIONS[-1], everything if request.param == "all" else None)


def pods(objects: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any], dict[str, str]]]:
    for each in objects:
        spec = each["spec"].get("jobTemplate", each)["spec"]
        if "template" in spec:
            template = spec["template"]
            yield each["metadata"]["name"], template["spec"], template["metadata"]["labels"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("whole", [False, True], ids=["least", "all"])
def test_every_object_is_valid_for_each_version(version: str, whole: bool, everything: Path) -> None:
    import kubernetes_validate

    of_others = {"ServiceMonitor", "PrometheusRule", "ScaledObject"}
    seen = set()
    for each in rendered(version, everything if whole else None):
        seen.add(each["kind"])
        if each["kind"] not in of_others:
            kubernetes_validate.validate(each, version, strict=True)
    assert {"StatefulSet", "Deployment", "Job", "NetworkPolicy", "PodDisruptionBudget", "Service"} <= seen
    assert (of_others | {"Ingress", "HorizontalPodAutoscaler", "CronJob"} <= seen) is whole


def test_it_lints_without_a_warning(everything: Path) -> None:
    for values in (None, everything):
        helm("lint", str(CHART), "--strict", "--kube-version", VERSIONS[-1], values=values)


def test_no_pod_may_do_more_than_it_needs(objects: list[dict[str, Any]]) -> None:
    found = list(pods(objects))
    assert len(found) in (4, 6)
    for _, pod, _ in found:
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]


def test_probes_wait_longer_than_a_process_waits_for_redis_or_kafka(objects: list[dict[str, Any]]) -> None:
    """And what decides whether a pod gets requests is not whether Kafka answers."""
    probed = [pod["containers"][0] for _, pod, _ in pods(objects) if "readinessProbe" in pod["containers"][0]]
    assert len(probed) == 3
    for container in probed:
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert container[probe]["timeoutSeconds"] > REACHED_S
        assert container["readinessProbe"]["httpGet"]["path"] == "/startupz"


def test_secrets_are_files_and_stand_in_no_object(objects: list[dict[str, Any]]) -> None:
    assert not [each for each in objects if each["kind"] == "Secret"]
    for _, pod, _ in pods(objects):
        (container,) = pod["containers"]
        mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
        env = {entry["name"]: entry.get("value", "") for entry in container["env"]}
        assert env["HMX_REDIS_URL_FILE"] == "/etc/hmx/redis/url"
        for value in env.values():
            if value.startswith("/etc/hmx/"):
                assert str(Path(value).parent) in mounted


def test_what_selects_pods_finds_those_of_one_process(objects: list[dict[str, Any]]) -> None:
    labels = {name: labels for name, _, labels in pods(objects)}
    selectors = [
        each["spec"].get("podSelector") or each["spec"]["selector"]
        for each in objects
        if each["kind"] in {"Service", "NetworkPolicy", "PodDisruptionBudget", "StatefulSet", "Deployment"}
    ]
    for selector in selectors:
        wanted = selector.get("matchLabels", selector)
        found = {has["app.kubernetes.io/component"] for has in labels.values() if wanted.items() <= has.items()}
        assert len(found) == 1, wanted


def test_the_alert_on_processes_that_are_down_knows_the_job_of_each_whatever_the_release_is_called(
    everything: Path,
) -> None:
    made = rendered(VERSIONS[-1], everything)
    (monitor,) = (each["spec"] for each in made if each["kind"] == "ServiceMonitor")
    (rules,) = (each["spec"] for each in made if each["kind"] == "PrometheusRule")
    (down,) = (one for group in rules["groups"] for one in group["rules"] if one["alert"] == "HmxProcessDown")
    (pattern,) = re.findall(r'job=~"([^"]+)"', down["expr"])
    wanted = monitor["selector"]["matchLabels"].items()
    jobs = {
        each["metadata"]["labels"].get(monitor.get("jobLabel"), "")
        for each in made
        if each["kind"] == "Service" and wanted <= each["metadata"]["labels"].items()
    }
    assert jobs
    assert all(re.fullmatch(pattern, job) for job in jobs)


def with_values(*given: str) -> list[dict[str, Any]]:
    words = [part for each in given for part in ("--set", each)]
    done = helm("template", "hmx", str(CHART), "--namespace", "agents", "--kube-version", VERSIONS[-1], *words)
    return [document for document in yaml.safe_load_all(done.stdout) if document]


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ((), "http://hmx-service.agents:8080/"),
        (("service.port=80",), "http://hmx-service.agents:80/"),
        (("monitoring.docsUrl=https://hmx.example.com/",), "https://hmx.example.com/"),
    ],
)
def test_an_alerts_runbook_is_at_the_service_of_this_installation(given: tuple[str, ...], base: str) -> None:
    made = with_values("monitoring.enabled=true", *given)
    (rules,) = (each["spec"]["groups"] for each in made if each["kind"] == "PrometheusRule")
    found = [rule["annotations"]["runbook_url"] for group in rules for rule in group["rules"]]
    assert found
    assert all(url.startswith(f"{base}docs/") for url in found)


def test_prometheus_reaches_a_service_whose_callers_are_narrowed() -> None:
    made = with_values("networkPolicies.serviceFrom[0].ipBlock.cidr=10.0.0.0/8")
    policies = {each["metadata"]["name"]: each["spec"] for each in made if each["kind"] == "NetworkPolicy"}
    (rule,) = policies["hmx-service"]["ingress"]
    prometheus = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}}  # of its own namespace
    assert prometheus in rule["from"]
    assert not [peer for peer in rule["from"] if "namespaceSelector" in peer]
    assert policies["hmx-worker"]["ingress"][0]["from"] == [{"namespaceSelector": {}}]


def test_the_page_asks_the_pods_by_names_that_their_services_give(objects: list[dict[str, Any]]) -> None:
    (service,) = (pod for name, pod, _ in pods(objects) if name == "hmx-service")
    env = {entry["name"]: entry.get("value", "") for entry in service["containers"][0]["env"]}
    asked = dict(each.split("=", 1) for each in env["HMX_PROCESSES"].split(","))
    heads = {each["metadata"]["name"] for each in objects if each["spec"].get("clusterIP") == "None"}
    assert {address.split("//")[1].split(":")[0].split(".", 1)[1] for address in asked.values()} == heads
    assert len(asked) == 4


def test_only_the_service_knows_and_reaches_the_issuer_of_tokens(everything: Path) -> None:
    objects = rendered(VERSIONS[-1], everything)
    known = [name for name, pod, _ in pods(objects) if "HMX_JWT_ISSUER" in str(pod["containers"][0]["env"])]
    reach = [each["metadata"]["name"] for each in objects if "8443" in str(each["spec"].get("egress"))]
    assert known == reach == ["hmx-service"]


def test_whoever_reads_the_archive_reaches_it_with_its_login(everything: Path) -> None:
    """The materialiser, and the toolbox when it restores a backup."""
    objects = rendered(VERSIONS[-1], everything)
    login = [name for name, pod, _ in pods(objects) if "hmx-archive" in str(pod["containers"][0].get("envFrom"))]
    reach = [each["metadata"]["name"] for each in objects if "9000" in str(each["spec"].get("egress"))]
    assert sorted(login) == sorted(reach) == ["hmx-materialiser", "hmx-toolbox"]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("kafka.bootstrap=", "bootstrap"),
        ("worker.replica=3", "replica"),
        ("image.digest=abc", "digest"),
        ("settings.LOG_LEVEL=DEBUG", "LOG_LEVEL"),
        ("service.ingress.enabled=true", "service.ingress.host"),
        ("jwt.issuer=https://login.example.com", "jwt.audience"),
        ("jwt.issuer=http://login.example.com", "jwt"),
        ("worker.autoscaling.enabled=true", "worker.autoscaling.prometheus"),
        ("settings.HMX_STATE=/tmp/other", "HMX_STATE"),
        ("settings.HMX_WORKER_PORT=9000", "HMX_WORKER_PORT"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(given: str, named: str) -> None:
    words = ("template", "hmx", str(CHART), "--kube-version", VERSIONS[-1])
    least = [part for name, value in LEAST.items() for part in ("--set", f"{name}={value}")]
    done = subprocess.run([HELM, *words, *least, "--set", given], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert named in done.stderr


def test_an_image_may_be_pinned() -> None:
    digest = "sha256:" + "a" * 64
    words = ("template", "hmx", str(CHART), "--kube-version", VERSIONS[-1], "--set", f"image.digest={digest}")
    images = {pod["containers"][0]["image"] for _, pod, _ in pods(list(yaml.safe_load_all(helm(*words).stdout)))}
    assert images == {f"hmx-pipeline@{digest}"}


def test_the_longest_name_of_a_release_leaves_each_object_its_own() -> None:
    """A CronJob's name has 52 characters at most, and a StatefulSet's with the hash of its pods 63."""
    given = ("--set", "toolbox.enabled=true", "--set", "retention.schedule=30 0 * * *")
    done = helm("template", "a" * 53, str(CHART), "--kube-version", VERSIONS[-1], *given)
    names = [(each["kind"], each["metadata"]["name"]) for each in yaml.safe_load_all(done.stdout) if each]
    assert len(set(names)) == len(names)
    assert max(len(name) for _, name in names) <= 52


def test_the_service_takes_further_names_of_its_own() -> None:
    made = with_values("settings.HMX_ALLOWED_HOSTS=hmx.example.com")
    (service,) = (pod for name, pod, _ in pods(made) if name == "hmx-service")
    hosts = [each["value"] for each in service["containers"][0]["env"] if each["name"] == "HMX_ALLOWED_HOSTS"]
    assert [each.split(",") for each in hosts] == [
        ["hmx-service", "hmx-service.agents", "hmx-service.agents.svc", "hmx.example.com"]
    ]


def test_uninstall_finds_all_that_an_install_made(objects: list[dict[str, Any]]) -> None:
    """Helm forgets what its hooks made: it goes when they have succeeded."""
    made = [each["metadata"].get("annotations", {}) for each in objects]
    hooks = [each["helm.sh/hook-delete-policy"] for each in made if "helm.sh/hook" in each]
    assert hooks
    assert all("hook-succeeded" in each.split(",") for each in hooks)


def test_one_policy_holds_for_each_pod(objects: list[dict[str, Any]]) -> None:
    policies = [each["spec"]["podSelector"]["matchLabels"] for each in objects if each["kind"] == "NetworkPolicy"]
    for name, _, labels in pods(objects):
        assert len([wanted for wanted in policies if wanted.items() <= labels.items()]) == 1, name
