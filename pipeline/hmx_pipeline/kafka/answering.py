"""Whether Kafka answers now, for readiness and for the metric that alerts on an outage.

Enters: a client and a topic. Leaves: why the topic can't be used now, or None, and the metric `hmx_kafka_answers`. Lag
does not tell: the end of a topic stays as it was last known. So a broker is asked, at most once in KEPT_S.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from hmx_pipeline.kafka.client_login import denied, refusal

LOG: Final = logging.getLogger("hmx.kafka")
REACHED_S: Final = 2.0
KEPT_S: Final = 1.0


class KafkaAnswers:
    """Thread-safe. `client` returns the client that asks."""

    def __init__(self, client: Callable[[], AdminClient | Consumer | Producer], topic: str, process: str) -> None:
        from hmx_pipeline.observe.metrics import METRICS  # which commands do without

        self._client, self._topic = client, topic
        self._gauge = METRICS.kafka_answers.labels(process)
        self._lock = threading.Lock()
        self._due = 0.0
        self._why: str | None = None

    def why_not(self) -> str | None:
        """Returns why the topic can't be used, or None. Blocks for REACHED_S at most."""
        with self._lock:
            if time.monotonic() >= self._due:
                before, self._why = self._why, self._ask()
                self._due = time.monotonic() + KEPT_S
                self._gauge.set(self._why is None)
                if (before is None) != (self._why is None):
                    LOG.warning(self._why or "Kafka answers again")
            return self._why

    def _ask(self) -> str | None:
        try:
            found = self._client().list_topics(self._topic, timeout=REACHED_S).topics[self._topic]
        except KafkaException as error:
            return refusal() or f"Kafka does not answer: {error.args[0].str()}"
        if found.error is not None:
            return denied(found.error, f"topic {self._topic}") or f"topic {self._topic}: {found.error.str()}"
        leaderless = sorted(number for number, each in found.partitions.items() if each.leader == -1)
        return f"topic {self._topic} has no leader for the partitions {leaderless}" if leaderless else None
