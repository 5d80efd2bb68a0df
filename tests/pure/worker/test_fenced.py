"""A producer that was fenced while its call waited says so, and nothing else: an owner whose partition has gone to
another goes on with its others then."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from hmx_pipeline.runtime.transaction import FencedError, Transactions
from hmx_pipeline.topology import SESSIONS


class Fenced:
    """The client raises its fatal error from whatever is called next, here from `poll`."""

    def begin_transaction(self) -> None:
        raise KafkaException(KafkaError(KafkaError._STATE, "not in a transaction"))

    def poll(self, _timeout: float) -> int:
        raise KafkaException(KafkaError(KafkaError._FENCED, "fenced by a newer instance", fatal=True))


def test_a_fatal_error_that_comes_from_poll_is_told_as_fencing() -> None:
    transactions: Any = Transactions.__new__(Transactions)
    transactions._source, transactions._partition, transactions._stage = "events", 0, SESSIONS
    transactions._producer = Fenced()
    with pytest.raises(FencedError, match="fenced by a newer instance"):
        transactions.write((), {}, b"")
