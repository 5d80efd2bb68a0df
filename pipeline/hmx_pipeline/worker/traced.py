"""Partition with OpenTelemetry spans, used only if tracing is enabled."""

import time
from collections.abc import Mapping

from faust.types import TP

from hmx_pipeline.contracts.headers import traceparent
from hmx_pipeline.observe.tracing import Spans
from hmx_pipeline.runtime.transaction import Transactions
from hmx_pipeline.stages.executor import FoldFactory
from hmx_pipeline.topology import Stage
from hmx_pipeline.worker.partition import FetchedBatch, OwnedPartition


class TracedPartition(OwnedPartition):
    def __init__(self, tp: TP, stage: Stage, new_fold: FoldFactory, transactions: Transactions, tracing: Spans) -> None:
        super().__init__(tp, stage, new_fold, transactions)
        self._tracing = tracing

    def process(self, batch: FetchedBatch) -> Mapping[str, int]:
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
