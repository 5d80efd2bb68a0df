"""Kafka access: topic files and their plan, clients, transactions, control records, topic readers."""
