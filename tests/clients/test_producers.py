"""The producers that the pages show run as printed, in each language: key, partition and event are what is expected.

Their clients come from the locks under `producers`; Java's are the jars of the local broker.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hmx_pipeline.contracts.keys import partition_of, session_key
from hmx_pipeline.intake.decode import Accepted, decode
from hmx_pipeline.local.jars import classpath
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS
from tests.support.documents import DOCS
from tests.support.pipeline import create_topics, new_settings
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
