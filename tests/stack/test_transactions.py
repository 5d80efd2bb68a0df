"""One partition's producer on a real Kafka: whoever was fenced lets it go, and the worker's other partitions go on."""

import time
from contextlib import closing

import pytest
from confluent_kafka import KafkaException

from hmx_pipeline.kafka.clients import Cluster, plain_producer
from hmx_pipeline.runtime.transaction import Transactions
from hmx_pipeline.stages.output import Output
from hmx_pipeline.topology import SESSION_STATE, SESSIONS
from tests.support.pipeline import create_topics, new_settings


@pytest.mark.parametrize("commits", [True, False])
def test_a_producer_that_was_fenced_can_be_closed(kafka: str, commits: bool) -> None:
    settings = new_settings(kafka)
    create_topics(settings, partitions=1)
    with closing(Cluster(settings.require_kafka())) as cluster:
        log = plain_producer(settings.require_kafka())
        former, owner = (Transactions(cluster, SESSIONS, 0, settings.topic_prefix, 60_000, log) for _ in range(2))
        former.fence()
        former._producer.begin_transaction()
        owner.fence()
        former._send(Output(SESSION_STATE, 0, b"s/1", b"{}", ()), alone=False)
        if commits:
            with pytest.raises(KafkaException, match="fenced"):
                former._producer.commit_transaction(20)
        else:
            time.sleep(2)  # until the client has learnt it
        former.close()
        owner.write([], {}, b"{}")
        owner.close()
