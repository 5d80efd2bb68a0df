"""A control plane of Kubernetes on this machine, and a stand-in for its kubelets.

Enters: the folder of etcd, kube-apiserver, kube-controller-manager and kube-scheduler. Leaves: a kubeconfig, the API,
and pods that are scheduled and ready. The servers are the real ones. No container runs: the stand-in says of each pod
what a kubelet says of one whose containers do as they should.
"""

import http.client
import itertools
import json
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from hmx_pipeline.local.ports import free_ports
from tests.support.waiting import until

SERVERS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
NODES = ("node-1", "node-2")
TOKEN = "operator"


class Api:
    """The API server over HTTPS, as one who may do anything."""

    def __init__(self, port: int, ca: Path) -> None:
        self._port, self._ca = port, ca

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        link = http.client.HTTPSConnection(
            "127.0.0.1", self._port, timeout=30, context=ssl.create_default_context(cafile=self._ca)
        )
        try:
            said = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind, "Accept": "application/json"}
            link.request(method, path, json.dumps(body) if body is not None else None, said)
            answer = link.getresponse()
            text = answer.read().decode()
        finally:
            link.close()
        if answer.status >= 400:
            raise RefusedError(answer.status, text)
        return json.loads(text) if text.startswith("{") else text

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def items(self, path: str) -> list[dict[str, Any]]:
        return list(self.get(path)["items"])

    def post(self, path: str, body: Any) -> Any:
        return self.ask("POST", path, body)

    def patch(self, path: str, body: Any) -> Any:
        return self.ask("PATCH", path, body, "application/strategic-merge-patch+json")

    def kinds(self) -> Iterator[tuple[str, str]]:
        """The path and name of each kind of object that lives in a namespace and can be listed."""
        groups = [
            "/api/v1",
            *(f"/apis/{each['preferredVersion']['groupVersion']}" for each in self.get("/apis")["groups"]),
        ]
        for group in groups:
            for each in self.get(group)["resources"]:
                if each["namespaced"] and {"list", "delete"} <= set(each["verbs"]):
                    yield group, each["name"]


class RefusedError(Exception):
    """The API server's answer to a request that it did not do."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class Kubelets(threading.Thread):
    """Tells of pods on nodes that they run and are ready, ends those of jobs, and lets go of those that are deleted."""

    def __init__(self, api: Api) -> None:
        super().__init__(daemon=True, name="kubelets")
        self.broken: set[str] = set()
        """Images whose containers never start."""
        self.told: list[tuple[str, str, str]] = []
        """What became of pods, in order: `ready` or `gone`, pod, image."""
        self.failure: Exception | None = None
        self._api = api
        self._addresses = itertools.count(2)
        self._ended = threading.Event()
        self._known: set[tuple[str, str]] = set()

    def run(self) -> None:
        while not self._ended.wait(0.1):
            try:
                for pod in self._api.items("/api/v1/pods"):
                    if "nodeName" in pod["spec"]:
                        self._look_at(pod)
            except Exception as error:  # noqa: BLE001 -- this thread's end would look like pods that wait for ever
                if not self._ended.is_set():
                    self.failure = error

    def stop(self) -> None:
        self._ended.set()
        self.join()

    def _look_at(self, pod: dict[str, Any]) -> None:
        about = pod["metadata"]
        path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}"
        image = pod["spec"]["containers"][0]["image"]
        if "deletionTimestamp" in about:
            self.told.append(("gone", about["name"], image))
            with suppress(RefusedError):  # it went by itself meanwhile
                self._api.ask("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": about["uid"]}})
        elif (about["uid"], image) not in self._known:
            self._known.add((about["uid"], image))
            with suppress(RefusedError):
                self._api.patch(f"{path}/status", {"status": self._status(pod, image)})
                if image not in self.broken:
                    self.told.append(("ready", about["name"], image))

    def _status(self, pod: dict[str, Any], image: str) -> dict[str, Any]:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        name, works = pod["spec"]["containers"][0]["name"], image not in self.broken
        job = any(owner["kind"] == "Job" for owner in pod["metadata"].get("ownerReferences", ()))
        runs: dict[str, Any] = {"running": {"startedAt": now}}
        if not works:
            runs = {"waiting": {"reason": "ImagePullBackOff"}}
        elif job:
            runs = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
        ready = works and not job
        address = "10.244.{}.{}".format(*divmod(next(self._addresses), 250))
        conditions = {"Initialized": True, "ContainersReady": ready, "Ready": ready}
        return {
            "phase": "Pending" if not works else "Succeeded" if job else "Running",
            "startTime": now,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [
                {"type": kind, "status": str(holds), "lastTransitionTime": now} for kind, holds in conditions.items()
            ],
            "containerStatuses": [{
                "name": name, "ready": ready, "started": ready, "state": runs, "restartCount": 0,
                "image": image, "imageID": image,
            }],
        }  # fmt: skip


class Cluster:
    def __init__(self, api: Api, kubelets: Kubelets, kubeconfig: Path) -> None:
        self.api, self.kubelets, self.kubeconfig = api, kubelets, kubeconfig


@contextmanager
def running(binaries: Path, folder: Path) -> Iterator[Cluster]:
    """Starts the servers, one on another, and ends them in the reverse order."""
    store, peers, port = free_ports(3)
    _write_keys(folder)
    kubeconfig = _write_kubeconfig(folder, port)
    with ExitStack() as ending:

        def start(name: str, *words: str) -> None:
            ending.enter_context(_process(binaries / name, folder / f"{name}.log", *words))

        client, peer = f"http://127.0.0.1:{store}", f"http://127.0.0.1:{peers}"
        start(
            "etcd", f"--data-dir={folder / 'etcd'}", "--unsafe-no-fsync",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
        )  # fmt: skip
        start(
            "kube-apiserver", f"--etcd-servers={client}", "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
            f"--secure-port={port}", f"--cert-dir={folder}", f"--token-auth-file={folder / 'tokens'}",
            "--authorization-mode=RBAC", "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder / 'public.pem'}",
            f"--service-account-signing-key-file={folder / 'private.pem'}",
        )  # fmt: skip
        api = Api(port, folder / "apiserver.crt")
        until(lambda: _answers(api), f"the API server is ready: see {folder}/kube-apiserver.log")
        common = (
            f"--kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=500",
            "--kube-api-burst=500",
        )
        start(
            "kube-controller-manager", *common, f"--service-account-private-key-file={folder / 'private.pem'}",
            "--node-monitor-grace-period=24h",
        )  # fmt: skip
        start("kube-scheduler", *common)
        for name in NODES:
            _add_node(api, name)
        kubelets = Kubelets(api)
        kubelets.start()
        ending.callback(kubelets.stop)
        yield Cluster(api, kubelets, kubeconfig)
        assert kubelets.failure is None, kubelets.failure


def _answers(api: Api) -> bool:
    with suppress(OSError, RefusedError):
        return bool(api.get("/readyz") == "ok")
    return False


def _write_keys(folder: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    (folder / "private.pem").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    )
    (folder / "public.pem").write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    (folder / "tokens").write_text(f"{TOKEN},{TOKEN},{TOKEN},system:masters\n")


def _write_kubeconfig(folder: Path, port: int) -> Path:
    """The API server makes its certificate itself, when it starts."""
    path = folder / "kubeconfig"
    server = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(folder / "apiserver.crt")}
    path.write_text(yaml.safe_dump({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "here", "cluster": server}],
        "users": [{"name": "here", "user": {"token": TOKEN}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}],
    }))  # fmt: skip
    path.chmod(0o600)
    return path


@contextmanager
def _process(binary: Path, log: Path, *words: str) -> Iterator[None]:
    with log.open("w") as out, subprocess.Popen([binary, *words], stdout=out, stderr=out) as started:
        try:
            yield
        finally:
            started.terminate()
            try:
                started.wait(20)
            except subprocess.TimeoutExpired:
                started.kill()


def _add_node(api: Api, name: str) -> None:
    api.post("/api/v1/nodes", {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
    holds = {"cpu": "64", "memory": "256Gi", "pods": "500"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
    api.patch(
        f"/api/v1/nodes/{name}/status", {"status": {"capacity": holds, "allocatable": holds, "conditions": [ready]}}
    )
