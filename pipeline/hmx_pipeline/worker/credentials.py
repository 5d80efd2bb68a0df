"""The Kafka profile as aiokafka wants it, through Faust.

Enters: a `KafkaProfile`. Leaves: Faust's credentials, None for PLAINTEXT. Fails: SettingsError where a certificate or
its key can't be used.
"""

import asyncio
import base64
import json
import ssl
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import NamedTemporaryFile
from typing import Final

from aiokafka.abc import AbstractTokenProvider
from faust.auth import Credentials, OAuthCredentials, SASLCredentials, SSLCredentials

from hmx_pipeline.kafka_profile import OAUTH, KafkaProfile
from hmx_pipeline.settings import SettingsError

ANSWER_S: Final = 10.0
USED: Final = 0.8
"""Of its lifetime: after that a token is renewed, as librdkafka does."""


def credentials(kafka: KafkaProfile) -> Credentials | None:
    context = ssl_context(kafka) if kafka.protocol.endswith("SSL") else None
    if not kafka.protocol.startswith("SASL"):
        return SSLCredentials(context) if context else None
    if kafka.mechanism == "OAUTHBEARER":
        return OAuthCredentials(oauth_cb=Tokens(kafka), ssl_context=context)
    told = kafka.properties
    return SASLCredentials(
        username=told["sasl.username"],
        password=told["sasl.password"],
        mechanism=kafka.mechanism,
        ssl_context=context,
    )


def ssl_context(kafka: KafkaProfile) -> ssl.SSLContext:
    told = kafka.properties
    try:
        context = ssl.create_default_context(cafile=told.get("ssl.ca.location"), cadata=told.get("ssl.ca.pem"))
        # Python 3.13 refuses authorities that lack optional extensions; librdkafka and Java take them.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.check_hostname = told["ssl.endpoint.identification.algorithm"] == "https"
        if ciphers := told.get("ssl.cipher.suites"):
            context.set_ciphers(ciphers)
        with _file(told, "certificate") as certificate, _file(told, "key") as key:
            if certificate:
                # An empty passphrase: without any, OpenSSL would ask for it on the terminal.
                context.load_cert_chain(certificate, key, told.get("ssl.key.password", ""))
    except (OSError, ValueError) as error:
        raise SettingsError(f"ssl.ca, ssl.certificate or ssl.key can't be used: {error}") from None
    return context


@contextmanager
def _file(told: Mapping[str, str], what: str) -> Iterator[str | None]:
    """Python takes certificates and keys from files only."""
    if (text := told.get(f"ssl.{what}.pem")) is None:
        yield told.get(f"ssl.{what}.location")
        return
    with NamedTemporaryFile("w", suffix=".pem") as file:  # nobody else may read it
        file.write(text)
        file.flush()
        yield file.name


class Tokens(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """Access tokens by OAuth's client credentials, as librdkafka gets them by `oidc`."""

    def __init__(self, kafka: KafkaProfile) -> None:
        self._told = kafka.properties
        self._token, self._until = "", 0.0

    async def token(self) -> str:
        if time.monotonic() > self._until:
            self._token, lives = await asyncio.to_thread(self._fetch)
            self._until = time.monotonic() + USED * lives
        return self._token

    def _fetch(self) -> tuple[str, float]:
        url, login, secret = (self._told[name] for name in OAUTH)
        form = {"grant_type": "client_credentials", "scope": self._told.get("sasl.oauthbearer.scope", "")}
        data = urllib.parse.urlencode({name: value for name, value in form.items() if value}).encode()
        basic = base64.b64encode(f"{login}:{secret}".encode()).decode()
        request = urllib.request.Request(url, data, {"Authorization": f"Basic {basic}"})  # noqa: S310  checked: http
        context = ssl.create_default_context(cafile=self._told.get("https.ca.location"))
        with urllib.request.urlopen(request, timeout=ANSWER_S, context=context) as answer:  # noqa: S310
            told = json.load(answer)
        return str(told["access_token"]), float(told.get("expires_in", 0))
