"""What is registered is read everywhere, and the registry's login goes to the registry alone."""

import base64
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from hmx_pipeline.contracts.schemas import documents
from hmx_pipeline.kafka.schema_registry import RegistryError, SchemaRegistry, plan_subjects, register_subject
from hmx_pipeline.kafka.topic_files import load_topics
from hmx_pipeline.settings import Settings, SettingsError
from tests.support.secured import Certificates

LATER = {"prefixItems", "dependentRequired", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties",
         "minContains", "maxContains", "$anchor", "$dynamicRef", "$dynamicAnchor"}  # fmt: skip


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from parts(part)


@pytest.mark.parametrize("name", documents())
def test_a_schema_means_the_same_in_the_draft_under_which_it_is_registered(name: str) -> None:
    document = documents()[name]
    Draft7Validator.check_schema(document)
    assert [part for part in parts(document) if LATER & {*part} or ("$ref" in part and len(part) > 1)] == []


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[tuple[str, Certificates, list[tuple[str, str]]]]:
    """Over TLS, for ann alone: it holds nothing, and takes what it is given."""
    taken: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            login = f"Basic {base64.b64encode(b'ann:secret').decode()}"
            if self.headers.get("Authorization") != login:
                status, said = 401, {"message": "Unauthorized"}
            elif self.command == "GET":
                status, said = 404, {"error_code": 40401, "message": "no such subject"}
            else:
                status, said = 200, {"id": 1}
                taken.append((self.command, self.path))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(said).encode())

        do_GET = do_POST = do_PUT = answer  # noqa: N815  http.server looks for these names

        def log_message(self, *_: object) -> None: ...

    made = Certificates.made(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.path("server.pem"), made.path("server.key"))
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://localhost:{server.server_port}", made, taken
        server.shutdown()


def test_a_new_subject_gets_its_schema_before_its_rule(registry: Any) -> None:
    url, certificates, taken = registry
    client = SchemaRegistry(url, "ann:secret", certificates.path("ca.pem"))
    (spec,) = [spec for spec in load_topics(prefix="a/") if spec.value.name == "erasure"]
    (wanted,) = plan_subjects(client, [spec])
    register_subject(client, wanted)
    subject = "a%2Fhmx.erasures.v1-value"
    assert taken == [("POST", f"/subjects/{subject}/versions"), ("PUT", f"/config/{subject}")]


def test_an_error_names_the_setting_that_mends_it_and_no_secret(registry: Any) -> None:
    url, certificates, _ = registry
    for login, ca, setting in (
        ("ann:wrong-one", "ca.pem", "HMX_SCHEMA_REGISTRY_LOGIN"),
        ("ann:secret", "other-ca.pem", "HMX_SCHEMA_REGISTRY_CA"),
    ):
        with pytest.raises(RegistryError, match=setting) as raised:
            SchemaRegistry(url, login, certificates.path(ca)).ask("GET", "/subjects/a/versions/latest")
        assert login not in str(raised.value)
    with pytest.raises(RegistryError, match="HMX_SCHEMA_REGISTRY_CA"):
        SchemaRegistry(url, ca="/nowhere.pem")
    with pytest.raises(RegistryError, match="HMX_SCHEMA_REGISTRY_URL"):
        SchemaRegistry("http://127.0.0.1:1").ask("GET", "/subjects")


def test_a_login_that_is_sent_in_the_clear_to_this_machine_passes_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.setblocking(False)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        with pytest.raises(RegistryError, match="Connection refused"):
            SchemaRegistry("http://127.0.0.1:1", "ann:secret").ask("GET", "/subjects")
        with pytest.raises(BlockingIOError):
            proxy.accept()


@pytest.mark.parametrize("url", ["http://localhost:80x", "http://a b", "http://[::1", "http://"])
def test_an_address_that_is_none_is_an_error_that_names_its_setting(url: str) -> None:
    with pytest.raises(RegistryError, match="HMX_SCHEMA_REGISTRY_URL"):
        SchemaRegistry(url, "ann:secret").ask("GET", "/subjects")


def test_an_answer_that_breaks_off_is_an_error_that_names_the_setting() -> None:
    def answer(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=answer, args=(listening,), daemon=True).start()
        with pytest.raises(RegistryError, match="HMX_SCHEMA_REGISTRY_URL"):
            SchemaRegistry(f"http://127.0.0.1:{listening.getsockname()[1]}").ask("GET", "/subjects")


@pytest.mark.parametrize("url", ["", "https://ann:secret@registry:8081", "http://registry:8081"])
def test_a_login_is_neither_part_of_the_address_nor_sent_in_the_clear(url: str) -> None:
    with pytest.raises(SettingsError, match="HMX_SCHEMA_REGISTRY_URL") as raised:
        Settings(schema_registry_url=url, schema_registry_login="ann:secret").require_schema_registry()
    assert "secret" not in str(raised.value)
