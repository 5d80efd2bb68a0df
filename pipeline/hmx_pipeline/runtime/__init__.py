"""Stages on Kafka, exactly once: restoring state, transactions, positions, state topics, barriers."""
