"""`hmx serve --processes N`: one port, several processes, none of which outlives the one that was started."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from hmx_pipeline.local.ports import free_ports
from hmx_pipeline.service.processes import ServiceProcess, keep, listen, run_processes
from hmx_pipeline.settings import Settings, SettingsError
from tests.support.forked import PROGRAM
from tests.support.pipeline import create_topics, environment, new_settings
from tests.support.waiting import until

COUNT = 2


def free_run() -> int:
    """The first of three free ports that follow each other."""
    while True:
        (port,) = free_ports(1)
        with suppress(OSError):
            for number in range(1, COUNT + 1):
                socket.create_server(("127.0.0.1", port + number)).close()
            return port


@pytest.fixture
def settings(kafka: str, redis_url: str) -> Settings:
    port = free_run()
    made = new_settings(kafka, redis_url, service_port=port, service_url=f"http://127.0.0.1:{port}")
    create_topics(made)
    return made


@pytest.fixture
def parent(settings: Settings, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (tmp_path / "log").open("wb") as log:
        words = [sys.executable, *PROGRAM, "serve", "--processes", str(COUNT)]
        process = subprocess.Popen(words, env=environment(settings), stdout=log, stderr=log, start_new_session=True)
    try:
        until(lambda: all(lives(settings, number) for number in range(1, COUNT + 1)))
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def lives(settings: Settings, number: int = 0) -> bool:
    """Child `number`, or with 0 whoever answers on the shared port."""
    with suppress(httpx.TransportError):
        return httpx.get(f"http://127.0.0.1:{settings.service_port + number}/livez", timeout=20).status_code == 200
    return False


def children(parent: subprocess.Popen[bytes]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()]


def taken(settings: Settings, number: int) -> int:
    """Requests for artifacts that a child has answered."""
    lines = httpx.get(f"http://127.0.0.1:{settings.service_port + number}/metrics", timeout=20).text.splitlines()
    asked = [line for line in lines if line.startswith("hmx_http_requests_total") and '"/v1/hmx/artifacts"' in line]
    return sum(int(float(line.rpartition(" ")[2])) for line in asked)


@pytest.mark.skipif(sys.platform != "linux", reason="the children are read from /proc")
def test_all_answer_on_one_port_one_that_is_killed_starts_again_and_all_end_together(
    settings: Settings, parent: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    before = children(parent)
    assert len(before) == COUNT
    for _ in range(20):
        answer = httpx.get(f"{settings.service_url}/v1/hmx/artifacts", headers={"X-HMX-Tenant": "acme"}, timeout=20)
        assert answer.status_code == 200, answer.text
    assert sum(taken(settings, number) for number in range(1, COUNT + 1)) == 20
    os.kill(before[0], signal.SIGKILL)
    assert lives(settings), "another one has the port"
    until(lambda: len(children(parent)) == COUNT and children(parent) != before and lives(settings, 1))
    parent.send_signal(signal.SIGTERM)
    assert parent.wait(60) == 0
    assert not any(lives(settings, number) for number in range(COUNT + 1))
    assert "Fatal" not in (tmp_path / "log").read_text(), "a thread that waits must not hinder a child's end"


@pytest.mark.skipif(sys.platform != "linux", reason="the children are read from /proc")
def test_children_end_when_their_parent_is_killed(settings: Settings, parent: subprocess.Popen[bytes]) -> None:
    parent.kill()
    parent.wait()
    until(lambda: not any(lives(settings, number) for number in range(COUNT + 1)))


@pytest.mark.parametrize("number", [0, COUNT])
def test_a_port_that_is_taken_is_named(settings: Settings, number: int) -> None:
    words = [sys.executable, *PROGRAM, "serve", "--processes", str(COUNT)]
    with socket.create_server(("127.0.0.1", settings.service_port + number)):
        done = subprocess.run(words, env=environment(settings), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "HMX_SERVICE_PORT" in done.stderr
    assert str(settings.service_port + number) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("port", [0, 65_535])
def test_each_process_needs_a_port_above(port: int) -> None:
    with pytest.raises(SettingsError, match="HMX_SERVICE_PORT"):
        run_processes(Settings(service_port=port), COUNT)


def test_one_that_is_killed_as_soon_as_it_starts_waits_for_its_next_start() -> None:
    """As often as it can start would be several times a second, of the time that the others need."""
    words = [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"]
    process = subprocess.Popen(words)
    assert process.wait() == -signal.SIGKILL
    children = {1: ServiceProcess(process, time.monotonic() + 1_000)}
    assert keep(children, 1, Settings(), 0)
    assert children[1].process is process


@pytest.mark.skipif(not socket.has_ipv6, reason="the machine has no IPv6")
@pytest.mark.parametrize(("host", "family"), [("::1", socket.AF_INET6), ("127.0.0.1", socket.AF_INET)])
def test_it_listens_on_either_kind_of_address(host: str, family: socket.AddressFamily) -> None:
    with listen(host, 0) as listening:
        assert listening.family == family


def test_children_that_cannot_run_end_all(settings: Settings, tmp_path: Path) -> None:
    words = [sys.executable, *PROGRAM, "serve", "--processes", str(COUNT)]
    nowhere = {"HMX_TLS_CERTIFICATE": str(tmp_path / "none.pem"), "HMX_TLS_KEY": str(tmp_path / "none.key")}
    done = subprocess.run(
        words,
        env={**environment(settings), **nowhere},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "HMX_TLS_CERTIFICATE" in done.stderr
