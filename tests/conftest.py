"""What every test may ask for: a running Kafka, one for all processes that run tests, and a Redis of each."""

import gc
import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from hmx_pipeline.local import ports
from tests.support.conformance import OUTCOMES, rows_of
from tests.support.memory import Memory
from tests.support.requirements import REQUIREMENTS
from tests.support.stack import Servers
from tests.support.stack import servers as running_servers

# How long an example takes depends on what else the machine does: no property of the code.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples every time, so that a commit is judged by what it changes; thorough runs look for others.
settings.register_profile("suite", settings.get_profile("patient"), max_examples=40, derandomize=True)
settings.register_profile("thorough", settings.get_profile("patient"), max_examples=1_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

FIRST_PORT, PROCESSES, PORTS_EACH = 10_000, 5, 2_000
SECONDS = "hmx/seconds"
LONGEST = {
    "tests/crash/test_short_seed.py", "tests/journey/test_secured.py", "tests/stack/test_redis_damage.py",
    "tests/stack/test_grow.py", "tests/verifier/test_against_the_stages.py",
    "tests/verifier/test_erasures_and_rulings.py",
}  # fmt: skip
"""Where none was measured yet, as in a fresh clone: about a minute and more each."""
_handlers: dict[signal.Signals, Any] = {}
_outcomes: dict[str, str] = {}
_seconds: dict[str, float] = {}
"""Of each file."""


def pytest_configure(config: pytest.Config) -> None:
    # A suite that runs in the background was told to ignore ^C, and whatever it starts would ignore it too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _handlers.update((number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM))
    _keep_to_own_ports(os.environ.get("PYTEST_XDIST_WORKER", ""))


def _keep_to_own_ports(worker: str) -> None:
    """Processes that run tests side by side, `gw0` and so on, choose from different ranges; and none of them from that
    of the stacks that tests start as processes."""
    if worker:
        ports.LOWEST = FIRST_PORT + PORTS_EACH * (int(worker.removeprefix("gw")) % PROCESSES)
        ports.HIGHEST = ports.LOWEST + PORTS_EACH - 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Side by side, the files that took longest come first: one that comes last would keep a process busy alone."""
    if hasattr(config, "workerinput"):
        cache = getattr(config, "cache", None)  # none under `-p no:cacheprovider`
        known = cache.get(SECONDS, {}) if cache else {}
        waits = {_file(item.nodeid) for item in items if "servers" in getattr(item, "fixturenames", ())}
        known = dict.fromkeys(waits, 20.0) | dict.fromkeys(LONGEST, 100.0) | known
        items.sort(key=lambda item: -known.get(_file(item.nodeid), 0.0))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """What stays until the end is no garbage: whoever collects it need not look through ten thousand tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """What a command does at a signal must not outlive the test that called it: it would end all others."""
    try:
        yield
    finally:
        left = [number for number, handler in _handlers.items() if signal.getsignal(number) is not handler]
        for number in left:
            signal.signal(number, _handlers[number])
    assert not left, "the test left handlers of signals behind"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A row that is not listed fails its test, whatever part of the suite is run."""
    if unknown := set(rows_of(item)) - set(REQUIREMENTS):
        pytest.fail(f"tests/support/requirements.py lists no row {', '.join(sorted(unknown))}", pytrace=False)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test passes where its call does and neither set-up nor tear-down fails."""
    if report.when == "call" or report.outcome != "passed":
        _outcomes[report.nodeid] = "failed" if _outcomes.get(report.nodeid) == "failed" else report.outcome
    _seconds[_file(report.nodeid)] = _seconds.get(_file(report.nodeid), 0.0) + report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """For `make conformance`: what became of each test when it last ran. For the next run: how long each file took."""
    if hasattr(session.config, "workerinput"):  # its reports reach the process that started it, which keeps all
        return
    cache: pytest.Cache | None = getattr(session.config, "cache", None)  # none under `-p no:cacheprovider`
    if _outcomes and cache is not None:
        cache.set(OUTCOMES, {**cache.get(OUTCOMES, {}), **_outcomes})
        if session.config.pluginmanager.hasplugin("dsession"):
            cache.set(SECONDS, {**cache.get(SECONDS, {}), **_seconds})


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """No test sees, or stops, the stack that whoever runs the suite has up in this checkout."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HMX_STATE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def servers(state_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    with running_servers(state_folder, None if alone else tmp_path_factory.getbasetemp().parent) as running:
        yield running


@pytest.fixture(scope="session")
def kafka(servers: Servers) -> str:
    """host:port of a real broker; topics are the test's own to create, under names of its own."""
    return servers.kafka_bootstrap


@pytest.fixture(scope="session")
def redis_url(servers: Servers) -> str:
    """A real Redis-compatible server; keys are the test's own to choose, so that tests don't meet."""
    return servers.redis_url


@pytest.fixture
def memory(redis_url: str) -> Iterator[Memory]:
    """Of the test alone: nobody else has its prefix, and nothing is left of it."""
    made = Memory(redis_url, f"t{uuid.uuid4().hex}-")
    yield made
    made.wipe()
    made.client.close()
