"""A Kafka and a Redis that let in only who may: TLS, SASL, an authorizer; certificates made for the occasion.

The broker has a listener for each way in. `admin` reaches the plain one, whose anonymous user may do everything.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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

from pipeline.kafka.rights import Right
from pipeline.kafka.topics import connect
from pipeline.local.kafka import Kafka, kafka
from pipeline.local.ports import free_ports
from pipeline.local.supervisor import Supervisor

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
    ports: dict[str, int]

    @property
    def admin(self) -> AdminClient:
        return connect(self.brokers.bootstrap)

    def address(self, way: str) -> str:
        return f"localhost:{self.ports[way]}"

    def set_password(self, user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> None:
        kind = ScramMechanism.SCRAM_SHA_512 if mechanism == "SCRAM-SHA-512" else ScramMechanism.SCRAM_SHA_256
        wanted = UserScramCredentialUpsertion(user, ScramCredentialInfo(kind, 4096), password.encode())
        admin = self.admin
        admin.alter_user_scram_credentials([wanted], request_timeout=ANSWER_S)[user].result()

    def allow(self, user: str, rights: Iterable[Right]) -> None:
        admin = self.admin
        for future in admin.create_acls(bindings(user, rights), request_timeout=ANSWER_S).values():
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
    return SecuredKafka(brokers, made, ways[0])


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


@contextmanager
def running(folder: Path) -> Iterator[SecuredKafka]:
    made = secured(folder)
    supervisor = Supervisor([list(made.brokers.components)], folder / "logs", lambda _: None)
    try:
        supervisor.start()
        yield made
    finally:
        supervisor.stop()
