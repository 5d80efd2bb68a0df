"""What the examples of the pages, compose file and Dockerfile say is what the code says."""

import json
import re
import subprocess
from dataclasses import fields
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from hmx_pipeline.contracts.keys import session_key
from hmx_pipeline.intake.decode import Accepted, decode
from hmx_pipeline.kafka_profile import JAVA_ONLY, NAMES
from hmx_pipeline.local.jars import KAFKA_VERSION
from hmx_pipeline.local.kafka import MESSAGE_BYTES
from hmx_pipeline.settings import Settings
from tests.support import bill, generated
from tests.support.documents import DOCS, README, ROOT
from tests.support.generated import command_of

PAGES = [path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", "\n".join(PAGES), re.MULTILINE | re.DOTALL)
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
VARIABLES = {
    f"HMX_{field.name.upper()}{behind}"
    for field in fields(Settings)
    for behind in ("", *(["_FILE"] if "secret" in field.metadata else []))
} | {f"HMX_KAFKA_{name.upper().replace('.', '_')}{behind}" for name in NAMES | JAVA_ONLY for behind in ("", "_FILE")}
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()

NAMED = r"HMX_[A-Z0-9_]*[A-Z0-9](?![A-Z0-9_])"


def test_every_variable_that_a_page_names_is_a_setting() -> None:
    others = [README, ROOT / "deploy" / "README.md"]
    text = "\n".join([*PAGES, *(path.read_text(encoding="utf-8") for path in others)])
    ports = set(re.findall(r"\$\{(HMX_\w+):-", (ROOT / "docker-compose.yml").read_text()))
    clients = [path for path in (ROOT / "integrations").rglob("*") if path.is_file() and path.suffix in ("", ".py")]
    theirs = set(re.findall(NAMED, "\n".join(path.read_text("utf-8") for path in clients)))
    constants = {"HMX_VERSION"}  # the architecture names it as what a module defines
    assert set(re.findall(NAMED, text)) <= VARIABLES | ports | theirs | constants


def test_the_pages_name_every_make_target() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)) - {"help"}
    assert targets <= set(re.findall(r"\bmake ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text()))
    assert {"test", "test-web"} <= set(re.findall(r"\bmake ([a-z-]+)", README.read_text()))


def test_python_examples_are_valid_and_their_event_is_accepted() -> None:
    examples = [code for language, code in BLOCKS if language == "python"]
    (producer,) = [code for code in examples if "import Producer" in code]
    (literal,) = re.findall(r"^event = (\{.*?^\})$", producer, re.MULTILINE | re.DOTALL)
    event = json.loads(re.sub(r",(\s*[}\]])", r"\1", literal))
    assert isinstance(decode(json.dumps(event).encode()), Accepted)
    keyed = re.search(r"^key = (.*)$", producer, re.MULTILINE)
    assert keyed is not None
    assert eval(keyed[1], {"event": event, "quote": quote}) == session_key(event["tenant_id"], event["session_id"])


def test_the_kcat_example_sends_an_accepted_event_under_its_key() -> None:
    (script,) = (code for language, code in BLOCKS if "kcat" in code and language == "sh")
    sent = subprocess.run(["sh", "-c", script.partition("|\n")[0]], capture_output=True, text=True, check=True).stdout
    key, value = sent.split("\t")
    accepted = decode(value.encode())
    assert isinstance(accepted, Accepted)
    assert key == session_key(accepted.event.tenant_id, accepted.event.session_id)


def test_containers_get_settings_that_exist() -> None:
    for name, service in OURS.items():
        given = {variable for variable in service["environment"] if variable.startswith("HMX_")}
        assert given <= VARIABLES, name
        assert {"HMX_KAFKA_BOOTSTRAP", "HMX_REDIS_URL", "HMX_CONTROL_KEY"} <= given, name
        loaded = Settings.load({key: str(value) for key, value in service["environment"].items()})
        assert loaded.host == "0.0.0.0"


def test_containers_run_commands_that_exist_and_all_that_the_local_stack_runs() -> None:
    for name, service in OURS.items():
        assert command_of(service["command"]) is not None, name
    assert {" ".join(service["command"]) for service in OURS.values()} == {
        "topics apply --yes", "worker", "materialise", "serve",
    }  # fmt: skip


def test_containers_wait_for_what_they_need_and_are_watched() -> None:
    for name, service in SERVICES.items():
        for needed, how in service.get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[needed], name
            else:
                assert SERVICES[needed]["restart"] == "no", name
        assert ("healthcheck" in service) != (service["restart"] == "no"), name


@pytest.mark.parametrize(("name", "port"), [("worker", 8081), ("materialiser", 8082), ("service", 8080)])
def test_a_container_is_asked_for_its_health_where_it_answers(name: str, port: int) -> None:
    assert OURS[name]["environment"][f"HMX_{name.upper()}_PORT"] == port
    assert f"://127.0.0.1:{port}/startupz" in OURS[name]["healthcheck"]["test"][-1]


def test_the_container_broker_is_the_local_one() -> None:
    kafka = SERVICES["kafka"]
    assert kafka["image"] == f"apache/kafka:{KAFKA_VERSION}"
    assert kafka["environment"]["KAFKA_MESSAGE_MAX_BYTES"] == MESSAGE_BYTES
    assert kafka["environment"]["KAFKA_REPLICA_FETCH_MAX_BYTES"] == MESSAGE_BYTES
    assert kafka["environment"]["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"


def test_every_listener_is_advertised_to_those_who_use_it() -> None:
    environment = SERVICES["kafka"]["environment"]
    listeners = dict(part.split("://", 1) for part in environment["KAFKA_LISTENERS"].split(","))
    advertised = dict(part.split("://", 1) for part in environment["KAFKA_ADVERTISED_LISTENERS"].split(","))
    assert set(listeners) == {"INNER", "HOST", "CONTROLLER"}
    assert advertised["INNER"] == f"kafka{listeners['INNER']}" == COMPOSE["x-settings"]["HMX_KAFKA_BOOTSTRAP"]
    (published,) = SERVICES["kafka"]["ports"]
    assert published == f"{advertised['HOST']}{listeners['HOST']}"
    assert environment["KAFKA_CONTROLLER_QUORUM_VOTERS"] == f"1@kafka{listeners['CONTROLLER']}"


def test_nothing_is_published_beyond_this_machine() -> None:
    assert all(port.startswith("127.0.0.1:") for service in SERVICES.values() for port in service.get("ports", ()))


def test_the_bill_of_materials_is_of_the_lock_and_every_licence_is_permissive() -> None:
    assert bill.FILE.read_text() == bill.document(), "`make docs` writes it anew"
    assert not [(name, of) for name, of in bill.by_licence().items() if not name or re.search("GPL|SSPL|BUSL", name)]


def test_a_cell_of_many_names_says_how_many_it_leaves_out() -> None:
    names = [f"`name_{n}`" for n in range(12)]
    for most in (3, 5, 8):
        shown, _, more = generated._some(names, most).partition(" and ")
        assert (shown.count("name"), more) == (most, f"{12 - most} more")
