"""A Kafka and a Redis that let in only who may: TLS, SASL, an authorizer; certificates made for the occasion.

The broker has a listener for each way in. `admin` reaches the plain one, whose anonymous user may do everything.
"""

from __future__ import annotations

import base64
import json
import socket
import socketserver
import ssl
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from hmx_pipeline.kafka.acl_rights import Right
from hmx_pipeline.kafka.topic_files import connect
from hmx_pipeline.local.kafka import Kafka, kafka
from hmx_pipeline.local.ports import free_ports
from hmx_pipeline.local.supervisor import Supervisor
from hmx_pipeline.settings import Settings

ANSWER_S = 20.0
WAYS = ("SASL_SSL", "SSL", "SASL_PLAINTEXT")
_JAAS = "org.apache.kafka.common.security"
PLAIN_PASSWORD = "plain-Zq7Xw2"


@dataclass(frozen=True)
class Certificates:
    folder: Path

    @classmethod
    def made(cls, folder: Path) -> Certificates:
        """An authority, a server's certificate for localhost, a client's for CN=mtls, and another authority."""
        folder.mkdir(parents=True, exist_ok=True)
        made = cls(folder)
        for name in ("ca", "other-ca"):
            made._openssl("req", "-x509", *_NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "3",
                          "-subj", f"/CN=test {name}")  # fmt: skip
        made.sign("server", "localhost", "DNS:localhost")
        made.sign("mtls", "mtls")
        return made

    def sign(self, name: str, common_name: str, names: str = "", by: str = "ca") -> None:
        """`name`.key, `name`.pem, and both in `name`.store.pem, as Kafka wants it."""
        extra = self.folder / f"{name}.ext"
        extra.write_text(f"subjectAltName={names}\n" if names else "basicConstraints=CA:FALSE\n")
        self._openssl("req", "-new", *_NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr",
                      "-subj", f"/CN={common_name}")  # fmt: skip
        self._openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{by}.pem", "-CAkey", f"{by}.key", "-days", "3",
                      "-CAcreateserial", "-extfile", extra.name, "-out", f"{name}.pem")  # fmt: skip
        both = (self.folder / f"{name}.key").read_text() + (self.folder / f"{name}.pem").read_text()
        (self.folder / f"{name}.store.pem").write_text(both)

    def path(self, name: str) -> str:
        return str((self.folder / name).resolve())

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)


_NEW_KEY = ("-newkey", "rsa:2048", "-nodes")


@dataclass(frozen=True)
class SecuredKafka:
    brokers: Kafka
    certificates: Certificates
    ports: list[dict[str, int]]
    """Of each broker, by way in."""

    @property
    def admin(self) -> AdminClient:
        return connect(self.brokers.bootstrap)

    def address(self, way: str) -> str:
        return ",".join(f"localhost:{ports[way]}" for ports in self.ports)

    def scram(self, user: str, password: str) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": self.certificates.path("ca.pem"),
        }

    def as_user(self, settings: Settings, user: str, password: str) -> Settings:
        properties = tuple(self.scram(user, password).items())
        return replace(settings, kafka_bootstrap=self.address("SASL_SSL"), kafka_properties=properties)

    def set_password(self, user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> None:
        kind = ScramMechanism.SCRAM_SHA_512 if mechanism == "SCRAM-SHA-512" else ScramMechanism.SCRAM_SHA_256
        wanted = UserScramCredentialUpsertion(user, ScramCredentialInfo(kind, 4096), password.encode())
        admin = self.admin
        admin.alter_user_scram_credentials([wanted], request_timeout=ANSWER_S)[user].result()

    def allow(self, user: str, rights: Iterable[Right]) -> None:
        self.allow_each({user: rights})

    def allow_each(self, rights: Mapping[str, Iterable[Right]]) -> None:
        """Of each user."""
        admin, granted = self.admin, [one for user, theirs in rights.items() for one in bindings(user, theirs)]
        for future in admin.create_acls(granted, request_timeout=ANSWER_S).values():
            future.result()
        time.sleep(0.3)  # the authorizer hears of it from the metadata log

    def forbid(self, user: str, rights: Iterable[Right]) -> None:
        admin = self.admin
        filters = [
            AclBindingFilter(one.restype, one.name, one.resource_pattern_type, one.principal, one.host, one.operation,
                             one.permission_type)
            for one in bindings(user, rights)
        ]  # fmt: skip
        for future in admin.delete_acls(filters, request_timeout=ANSWER_S).values():
            future.result()
        time.sleep(0.3)


def bindings(user: str, rights: Iterable[Right]) -> list[AclBinding]:
    kinds = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "transactionalId": ResourceType.TRANSACTIONAL_ID}
    return [
        AclBinding(
            kinds[right.kind],
            right.name,
            ResourcePatternType.PREFIXED if right.prefixed else ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            AclOperation[_constant(operation)],
            AclPermissionType.ALLOW,
        )
        for right in rights
        for operation in right.operations
    ]


def _constant(operation: str) -> str:
    """DescribeConfigs → DESCRIBE_CONFIGS"""
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in operation).lstrip("_").upper()


def secured(folder: Path, nodes: int = 1) -> SecuredKafka:
    """Ready to run; `local.kafka` writes its configuration, and what is appended to a properties file wins."""
    made = Certificates.made(folder / "certificates")
    brokers = kafka(folder / "kafka", nodes, lambda _: None)
    ways: list[dict[str, int]] = []
    for node in range(1, nodes + 1):
        file = folder / "kafka" / f"kafka-{node}.properties"
        text = file.read_text()
        ours = dict(zip(WAYS, free_ports(len(WAYS)), strict=True))
        file.write_text(text + _fragment(text, made, ours))
        ways.append(ours)
    return SecuredKafka(brokers, made, ways)


def _fragment(text: str, made: Certificates, ports: dict[str, int]) -> str:
    (plain,) = (line.removeprefix("listeners=") for line in text.splitlines() if line.startswith("listeners="))
    listeners = ",".join((plain, *(f"{way}://localhost:{port}" for way, port in ports.items())))
    protocols = ",".join(f"{name}:{name}" for name in ("PLAINTEXT", *WAYS)) + ",CONTROLLER:PLAINTEXT"
    settings = {
        "listeners": listeners,
        "listener.security.protocol.map": protocols,
        "inter.broker.listener.name": "PLAINTEXT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": made.path("server.store.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": made.path("ca.pem"),
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/,DEFAULT",
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    }
    for way in ("sasl_ssl", "sasl_plaintext"):
        settings |= {
            f"listener.name.{way}.plain.sasl.jaas.config": f"{_JAAS}.plain.PlainLoginModule required "
            f'user_plain="{PLAIN_PASSWORD}";',
            f"listener.name.{way}.scram-sha-256.sasl.jaas.config": f"{_JAAS}.scram.ScramLoginModule required;",
            f"listener.name.{way}.scram-sha-512.sasl.jaas.config": f"{_JAAS}.scram.ScramLoginModule required;",
            f"listener.name.{way}.oauthbearer.sasl.jaas.config": f"{_JAAS}.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredLoginStringClaim_sub="broker";',
        }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


class Tokens(ThreadingHTTPServer):
    """A token endpoint for client credentials. Its tokens are not signed; the broker here takes such."""

    def __init__(self, secret: str) -> None:
        self.secret, self.asked = secret, 0
        super().__init__(("127.0.0.1", 0), _TokenHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/token"


class _TokenHandler(BaseHTTPRequestHandler):
    server: Tokens

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        scheme, _, login = self.headers.get("Authorization", "").partition(" ")
        user, _, secret = base64.b64decode(login).decode().partition(":")
        given = scheme == "Basic" and secret == self.server.secret and form["grant_type"] == ["client_credentials"]
        self.server.asked += 1
        now = int(time.time())
        claims = {"sub": user, "iat": now, "exp": now + 300, "scope": form.get("scope", [""])[0]}
        parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "none"}, claims)]
        body = {"access_token": b".".join((*parts, b"")).decode(), "token_type": "Bearer", "expires_in": 300}
        answer = json.dumps(body if given else {"error": "invalid_client"}).encode()
        self.send_response(200 if given else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Nothing."""


class TlsFront(socketserver.ThreadingTCPServer):
    """Speaks TLS and passes what it hears on: the carried Valkey is built without TLS."""

    daemon_threads = allow_reuse_address = True

    def __init__(self, made: Certificates, port: int) -> None:
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.load_cert_chain(made.path("server.pem"), made.path("server.key"))
        self.behind = port
        super().__init__(("127.0.0.1", 0), _TlsHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _TlsHandler(socketserver.BaseRequestHandler):
    server: TlsFront

    def handle(self) -> None:
        with (
            suppress(OSError),
            self.server.context.wrap_socket(self.request, server_side=True) as outside,
            socket.create_connection(("127.0.0.1", self.server.behind)) as inside,
        ):
            threading.Thread(target=_pass_on, args=(inside, outside), daemon=True).start()
            _pass_on(outside, inside)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_RDWR)


@contextmanager
def running(folder: Path) -> Iterator[SecuredKafka]:
    made = secured(folder)
    supervisor = Supervisor([list(made.brokers.components)], folder / "logs", lambda _: None)
    try:
        supervisor.start()
        yield made
    finally:
        supervisor.stop()
