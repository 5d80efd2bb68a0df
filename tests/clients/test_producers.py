"""What the pages for producers and readers show runs as printed: producers in each language, programs and curl.

Their clients come from the locks under `producers`; Java's are the jars of the local broker.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.keys import partition_of, session_key
from hmx_pipeline.intake.decode import Accepted, decode
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.local.jars import classpath
from hmx_pipeline.local.samples import sample_events
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS
from tests.support.documents import DOCS
from tests.support.pipeline import create_topics, new_settings, running
from tests.support.topics import read

LOCKS = Path(__file__).parent / "producers"
FILES = {"python": "produce.py", "javascript": "produce.mjs", "java": "Produce.java", "go": "main.go"}
COMMANDS = {
    "python": [[sys.executable, "produce.py"]],
    "javascript": [["npm", "ci", "--no-audit", "--no-fund"], ["node", "produce.mjs"]],
    "java": [["java", "-cp", "CLASSPATH", "Produce.java"]],
    "go": [["go", "run", "."]],
}
NEEDS = {"javascript": "npm", "java": "javac", "go": "go"}
SESSION = "a b/ü*~(1)+!'&%"
"""All of it but `~` and the letters is percent-encoded in a key."""
PAGE = (DOCS / "how-to" / "produce.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN = {
    (page, n): (language, code)
    for page in ("produce", "read")
    for n, (language, code) in enumerate(BLOCK.findall((DOCS / "how-to" / f"{page}.md").read_text("utf-8")))
    if "kcat" not in code
}
pytestmark = pytest.mark.clients


@pytest.fixture
def settings(kafka: str) -> Settings:
    made = new_settings(kafka)
    create_topics(made, partitions=16)
    return made


@pytest.mark.parametrize("language", FILES)
def test_a_producer_of_the_page_sends_an_event_that_is_accepted_under_its_key(
    language: str, settings: Settings, tmp_path: Path
) -> None:
    needed = NEEDS.get(language)
    assert needed is None or shutil.which(needed), f"this test needs {needed}"
    code = next(
        code
        for code in re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
        if "hmx.events.v1" in code
    )
    session = re.search(r"2026-03-14/\w+", code)
    assert session is not None
    for file in LOCKS.iterdir():
        shutil.copy(file, tmp_path)
    told = code.replace(session[0], SESSION).replace(EVENTS, settings.topic_prefix + EVENTS)
    (tmp_path / FILES[language]).write_text(told, encoding="utf-8")
    environment = os.environ | {"KAFKA": settings.kafka_bootstrap, "GOFLAGS": "-modcacherw"}
    for command in COMMANDS[language]:
        asked = [part.replace("CLASSPATH", classpath(lambda _: None)) for part in command]
        ran = subprocess.run(asked, cwd=tmp_path, env=environment, text=True, capture_output=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    (message,) = [message for messages in read(settings, EVENTS).values() for message in messages]
    event = decode(message.value())
    assert isinstance(event, Accepted)
    key = session_key("acme", SESSION)
    assert (event.event.session_id, message.key()) == (SESSION, key.encode())
    assert message.partition() == partition_of(key, 16)


@pytest.fixture(scope="module")
def started(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    made = new_settings(kafka, redis_url)
    with running(made, tmp_path_factory.mktemp("logs"), "worker", "materialiser", "service", partitions=2):
        publish(sample_events(), made)
        wait_for_all(made)
        yield made


@pytest.mark.parametrize("place", SHOWN, ids=lambda place: f"{place[0]}-{place[1]}")
def test_a_program_of_the_pages_runs(place: tuple[str, int], started: Settings, tmp_path: Path) -> None:
    language, code = SHOWN[place]
    (tmp_path / "sessions.ndjson").write_bytes(b"\n".join(sample_events()[:20]) + b"\n")
    environment = os.environ | {"KAFKA": started.kafka_bootstrap, "SERVICE": started.service_url}
    told = re.sub(r'"(hmx\.\w+\.v1)"', rf'"{started.topic_prefix}\1"', code)
    command = [sys.executable, "-c", told] if language == "python" else ["sh", "-euc", told]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, text=True, capture_output=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.strip() or "Producer" in code or "session=" in code
    assert "urn:hmx:problem" not in ran.stdout
