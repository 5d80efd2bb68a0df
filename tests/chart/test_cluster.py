"""The Helm chart in a cluster: a real control plane takes it, makes its pods, rolls, brings back and removes them."""

import os
import subprocess
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.cluster import NODES, SERVERS, Cluster, running
from tests.chart.test_chart import ALL, CHART, HELM
from tests.support.waiting import until

pytestmark = pytest.mark.cluster
BINARIES = Path(os.environ.get("HMX_CLUSTER", "build/bin"))
LEAST: dict[str, Any] = {
    "kafka": {"bootstrap": "kafka:9092"},
    "redis": {"urlSecret": "hmx-redis"},
    "controlKeySecret": "hmx-control",
}
SECURED = {**LEAST, "kafka": ALL["kafka"], "redis": ALL["redis"], "apiKeysSecret": "hmx-keys", "jwt": ALL["jwt"]}
MANY = {**LEAST, "worker": {"replicas": 8}, "materialiser": {"replicas": 4}, "service": {"replicas": 3}}
WHOLE = {**ALL, "worker": {}, "monitoring": {}}
"""Without what only other operators' kinds of objects are for."""
LONGEST = "memory-of-the-agents-in-the-eastern-region-production"
"""Helm takes no longer name of a release."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    missing = [name for name in SERVERS if not (BINARIES / name).exists()]
    if missing:
        pytest.skip(
            f"no {', '.join(missing)} in {BINARIES}: `make test-cluster` builds them, where Go and its modules are"
        )
    with running(BINARIES, tmp_path_factory.mktemp("cluster")) as started:
        yield started


class Space:
    """A namespace that takes restricted pods only, and a release in it."""

    def __init__(self, cluster: Cluster, name: str, folder: Path) -> None:
        self.cluster, self.name, self.folder, self.release = cluster, name, folder, "hmx"
        self.api = cluster.api
        label = dict.fromkeys(("pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/warn"), "restricted")
        self.api.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": label}})
        until(lambda: self.names("/api/v1", "serviceaccounts"), "the namespace has its account")

    def helm(self, *words: str, fails: bool = False) -> str:
        """What it says; a warning of the API server fails."""
        env = {**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig), "HELM_CACHE_HOME": str(self.folder)}
        done = subprocess.run(
            [HELM, *words, "--namespace", self.name], capture_output=True, text=True, check=False, env=env
        )
        assert (done.returncode != 0) is fails, done.stderr
        assert fails or not done.stderr.strip(), done.stderr
        return done.stdout + done.stderr

    def apply(self, verb: str, values: dict[str, Any], *words: str, fails: bool = False) -> str:
        path = self.folder / "values.yaml"
        path.write_text(yaml.safe_dump(values))
        return self.helm(
            verb, self.release, str(CHART), "--values", str(path), "--wait", "--timeout", "120s", *words, fails=fails
        )

    def items(self, group: str, kind: str) -> list[dict[str, Any]]:
        return self.api.items(f"{group}/namespaces/{self.name}/{kind}")

    def names(self, group: str, kind: str) -> list[str]:
        return sorted(each["metadata"]["name"] for each in self.items(group, kind))

    def get(self, group: str, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(f"{group}/namespaces/{self.name}/{kind}/{name}")
        return found

    def pods(self) -> dict[str, dict[str, Any]]:
        return {each["metadata"]["name"]: each for each in self.items("/api/v1", "pods")}

    def processes(self) -> Counter[str]:
        """How many pods of each are ready."""
        return Counter(process_of(pod) for pod in self.pods().values() if is_ready(pod))

    def images(self, process: str) -> list[str]:
        """Of the pods of a process, in the order of their names, with a ? where one is not ready."""
        return [
            pod["spec"]["containers"][0]["image"].rpartition(":")[2] + ("" if is_ready(pod) else "?")
            for _, pod in sorted(self.pods().items())
            if process_of(pod) == process
        ]

    def everything(self) -> set[str]:
        return {
            f"{kind}/{name}" for group, kind in self.api.kinds() if kind != "events" for name in self.names(group, kind)
        }


@pytest.fixture
def space(cluster: Cluster, tmp_path: Path) -> Iterator[Space]:
    made = Space(cluster, f"agents-{uuid.uuid4().hex[:8]}", tmp_path)
    yield made
    made.helm("uninstall", made.release, "--ignore-not-found")


def process_of(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"]["app.kubernetes.io/component"])


def is_ready(pod: dict[str, Any]) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))


def selects(selector: dict[str, Any], pod: dict[str, Any]) -> bool:
    wanted = selector.get("matchLabels", selector)
    return bool(wanted.items() <= pod["metadata"]["labels"].items())


@pytest.mark.parametrize(
    ("values", "release", "wanted"),
    [
        pytest.param(LEAST, "hmx", {"worker": 2, "materialiser": 2, "service": 2}, id="least"),
        pytest.param(SECURED, "hmx", {"worker": 2, "materialiser": 2, "service": 2}, id="secured"),
        pytest.param(MANY, "hmx", {"worker": 8, "materialiser": 4, "service": 3}, id="many"),
        pytest.param(WHOLE, LONGEST, {"worker": 2, "materialiser": 2, "service": 2, "toolbox": 1}, id="whole"),
    ],
)
def test_what_is_installed_becomes_ready_and_goes_again(
    space: Space, values: dict[str, Any], release: str, wanted: dict[str, int]
) -> None:
    add_claim(space)
    before = space.everything()
    space.release = release
    space.apply("install", values)
    until(lambda: space.processes() == wanted, "the autoscaler has seen that there are too few")
    pods = space.pods()
    for process, count in wanted.items():
        nodes = Counter(pod["spec"]["nodeName"] for pod in pods.values() if process_of(pod) == process)
        assert count == 1 or sorted(nodes) == list(NODES), process
    policies = space.items("/apis/networking.k8s.io/v1", "networkpolicies")
    for pod in pods.values():
        assert len([each for each in policies if selects(each["spec"]["podSelector"], pod)]) == 1
    until(lambda: all(budget_is_known(each) for each in space.items("/apis/policy/v1", "poddisruptionbudgets")))
    assert asked_addresses(space) <= given_addresses(space)
    space.helm("uninstall", space.release, "--wait")
    until(lambda: not space.pods(), "the pods are gone")
    until(lambda: space.everything() == before, "nothing is left")


def add_claim(space: Space) -> None:
    """A volume made beforehand, since nothing makes any here."""
    size, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    volume = {"capacity": size, "accessModes": modes, "hostPath": {"path": "/files"}, "storageClassName": ""}
    claim = {"accessModes": modes, "resources": {"requests": size}, "volumeName": space.name, "storageClassName": ""}
    space.api.post("/api/v1/persistentvolumes", {"metadata": {"name": space.name}, "spec": volume})
    space.api.post(
        f"/api/v1/namespaces/{space.name}/persistentvolumeclaims", {"metadata": {"name": "hmx-files"}, "spec": claim}
    )


def budget_is_known(budget: dict[str, Any]) -> bool:
    """As many pods as it should have, of which one may go."""
    status = budget.get("status", {})
    return status.get("expectedPods", 0) > 1 and status.get("disruptionsAllowed") == 1


def asked_addresses(space: Space) -> set[str]:
    """Where the service looks for workers and materialisers."""
    (service, *_) = (pod for pod in space.pods().values() if process_of(pod) == "service")
    env = {each["name"]: each.get("value", "") for each in service["spec"]["containers"][0]["env"]}
    return {each.partition("=http://")[2] for each in env["HMX_PROCESSES"].split(",")}


def given_addresses(space: Space) -> set[str]:
    """What a cluster's DNS answers for: the pods of headless services, by name."""
    return {
        f"{endpoint['hostname']}.{piece['metadata']['labels']['kubernetes.io/service-name']}:{port['port']}"
        for piece in space.items("/apis/discovery.k8s.io/v1", "endpointslices")
        for endpoint in piece["endpoints"] or ()
        if "hostname" in endpoint
        for port in piece["ports"]
    }


def test_an_upgrade_changes_one_pod_after_the_other_and_a_rollback_brings_them_back(space: Space) -> None:
    told = space.cluster.kubelets.told
    space.apply("install", {**LEAST, "image": {"tag": "old"}})
    del told[:]
    space.apply("upgrade", {**LEAST, "image": {"tag": "new"}, "worker": {"replicas": 3}})
    assert space.images("worker") == ["new"] * 3
    assert space.images("materialiser") == space.images("service") == ["new"] * 2
    for process in ("worker", "materialiser"):
        assert most_missing(told, process, space) == 1
    del told[:]
    space.helm("rollback", space.release, "--wait", "--timeout", "120s")
    until(lambda: space.images("worker") == ["old"] * 2, "the third worker is gone")
    assert space.images("materialiser") == space.images("service") == ["old"] * 2
    assert most_missing(told, "materialiser", space) == 1


def most_missing(told: list[tuple[str, str, str]], process: str, space: Space) -> int:
    """How many pods of a StatefulSet were away at the same time."""
    missing: set[str] = set()
    most = 0
    for what, pod, _ in told:
        if pod.startswith(f"{space.release}-{process}-"):
            missing = missing | {pod} if what == "gone" else missing - {pod}
            most = max(most, len(missing))
    return most


def test_an_image_that_never_starts_stops_before_any_pod_has_changed(space: Space) -> None:
    space.cluster.kubelets.broken.add("hmx-pipeline:broken")
    space.apply("install", {**LEAST, "image": {"tag": "old"}})
    space.apply("upgrade", {**LEAST, "image": {"tag": "broken"}}, "--timeout", "5s", fails=True)
    assert space.images("worker") == space.images("materialiser") == space.images("service") == ["old"] * 2
    space.apply("upgrade", {**LEAST, "image": {"tag": "new"}})
    assert space.images("worker") == ["new"] * 2


def test_a_rollback_mends_a_release_whose_pods_do_not_start(space: Space) -> None:
    broken = {**LEAST, "image": {"tag": "broken"}, "topics": {"apply": False}}
    space.cluster.kubelets.broken.add("hmx-pipeline:broken")
    space.apply("install", {**LEAST, "image": {"tag": "old"}})
    space.apply("upgrade", broken, "--timeout", "5s", fails=True)
    until(lambda: space.images("worker") == space.images("materialiser") == ["old", "broken?"])
    assert [image for image in space.images("service") if image == "old"] == ["old"] * 2
    space.helm("rollback", space.release, "--wait", "--timeout", "60s")
    assert space.images("worker") == space.images("materialiser") == ["old"] * 2


def test_a_run_of_retention_is_let_in_and_ends(space: Space) -> None:
    space.apply("install", {**LEAST, "retention": {"schedule": "30 0 * * *"}})
    schedule = space.get("/apis/batch/v1", "cronjobs", "hmx-retention")["spec"]
    job = {"metadata": {"name": "now"}, "spec": schedule["jobTemplate"]["spec"]}  # as `kubectl create job --from` does
    space.api.post(f"/apis/batch/v1/namespaces/{space.name}/jobs", job)
    until(lambda: space.get("/apis/batch/v1", "jobs", "now")["status"].get("succeeded"), "the job has run")
