"""Being let in by a cluster: what every client's configuration begins with, and words for being refused.

Enters: a `KafkaProfile`. Leaves: librdkafka's configuration; why no client gets in, which librdkafka tells beside the
request that then merely times out.
"""

import re
import time
from typing import Any, Final

from confluent_kafka import KafkaError

from hmx_pipeline.kafka_profile import KafkaProfile

QUIET: Final = 0
"""The client writes past our logs, twenty lines a second while Kafka is away; what matters reaches us as errors."""
FRESH_S: Final = 20.0
"""So long ago a refusal explains why Kafka does not answer now."""
_DENIED: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "a topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "a consumer group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "a transactional id",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the cluster",
}
_refused: list[tuple[float, KafkaProfile, KafkaError]] = []
"""When a client was last not let in, and what it was told."""


def as_profile(kafka: KafkaProfile | str) -> KafkaProfile:
    """A bare address is one without encryption and login."""
    return KafkaProfile(kafka) if isinstance(kafka, str) else kafka


def client_config(kafka: KafkaProfile | str) -> dict[str, Any]:
    profile = as_profile(kafka)
    if _refused and _refused[0][1] != profile:
        _refused.clear()

    def note(error: KafkaError) -> None:
        mistaken = error.code() == KafkaError._TRANSPORT and "SSL" in error.str()
        if mistaken or error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            _refused[:] = [(time.monotonic(), profile, error)]

    # By default a producer's or an admin client's question about a topic creates it, where the cluster allows that.
    own = {"allow.auto.create.topics": False, "log_level": QUIET, "error_cb": note}
    return {**profile.librdkafka(), **own}


def refusal() -> str:
    """Why clients are not let in, and what to look at; empty where nothing is known of that."""
    if not _refused or time.monotonic() - _refused[0][0] > FRESH_S:
        return ""
    _, kafka, error = _refused[0]
    told = re.sub(r"^\S+://\S+: | \(after .*?\)| \(install ca-certificates package\)", "", error.str())
    if error.code() == KafkaError._AUTHENTICATION:
        return f"Kafka at {kafka} refuses the login: check sasl.username, sasl.password and sasl.mechanism ({told})"
    return (
        f"no TLS connection to Kafka at {kafka}: check security.protocol, ssl.ca.location, the host name and, where the"
        f" cluster wants one, the client's certificate ({told})"
    )


def denied(error: KafkaError, what: str = "") -> str:
    """What to do where a right is missing; empty where the error is another one."""
    if error.code() not in _DENIED:
        return ""
    on = what or f"{_DENIED[error.code()]} ({error.str()})"
    return f"Kafka grants too few rights on {on}: let whoever runs Kafka add what `hmx acls` prints"
