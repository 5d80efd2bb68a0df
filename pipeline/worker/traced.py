"""Partition with OpenTelemetry spans, used only if tracing is enabled."""

import time
from collections.abc import Mapping

from faust.types import TP

from pipeline.contracts.headers import traceparent
from pipeline.kafka.transaction import Transactions
from pipeline.observe.tracing import Spans
from pipeline.stages.executor import FoldFactory
from pipeline.topology import Stage
from pipeline.worker.partition import Batch, OwnedPartition


class TracedPartition(OwnedPartition):
    def __init__(self, tp: TP, stage: Stage, new_fold: FoldFactory, transactions: Transactions, tracing: Spans) -> None:
        super().__init__(tp, stage, new_fold, transactions)
        self._tracing = tracing

    def process(self, batch: Batch) -> Mapping[str, int]:
        """Processes a batch and records one span per trace among its records."""
        began = time.time_ns()
        counts = super().process(batch)
        self._tracing.took(
            f"hmx {self.stage.name}",
            (traceparent(record.headers) for record in batch.records),
            began,
            messaging_system="kafka",
            messaging_destination_name=self.tp.topic,
            messaging_destination_partition_id=str(self.tp.partition),
        )
        return counts
