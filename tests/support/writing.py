"""Writing to the topics that are read as streams, as the stages do."""

import orjson
from confluent_kafka import Producer

from hmx_pipeline.contracts.keys import join_key, partition_of, session_key, tenant_partition
from hmx_pipeline.kafka.clients import producer_config
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import ARTIFACTS, EPISODES
from tests.support.memory import artifact, episode
from tests.support.waiting import PATIENCE_S


class Topics:
    """What the stages write, in transactions of several records."""

    def __init__(self, settings: Settings, partitions: int) -> None:
        self._settings = settings
        self._partitions = partitions
        self._producer = Producer(
            producer_config(settings.kafka_bootstrap, **{"transactional.id": f"{settings.topic_prefix}test"})
        )
        self._producer.init_transactions(PATIENCE_S)
        self.said = 0

    def write(self, *records: tuple[str, str, int, bytes | None], commit: bool = True) -> None:
        self._producer.begin_transaction()
        for topic, key, partition, value in records:
            self._producer.produce(self._settings.topic_prefix + topic, value, key, partition)
        if commit:
            self._producer.commit_transaction(PATIENCE_S)
        else:
            self._producer.flush()
            self._producer.abort_transaction(PATIENCE_S)

    def events(self, count: int, tenant: str = "acme", commit: bool = True, text: str = "") -> list[str]:
        """Released events in three sessions; their ids."""
        made, ids = [], []
        for _ in range(count):
            session, name = f"s{self.said % 3}", f"e{self.said}"
            value = orjson.dumps(episode(name, f"{tenant} {text}", tenant=tenant, session=session, index=self.said))
            key = session_key(tenant, session)
            made.append((EPISODES, key, partition_of(key, self._partitions), value))
            ids.append(name)
            self.said += 1
        self.write(*made, commit=commit)
        return ids

    def artifact(self, name: str, tenant: str = "acme", erased: bool = False) -> None:
        value = None if erased else artifact(name, tenant=tenant).to_json()
        self.write((ARTIFACTS, join_key(tenant, name), tenant_partition(tenant, self._partitions), value))
