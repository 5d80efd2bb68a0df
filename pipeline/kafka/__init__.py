"""Kafka as the pipeline uses it: topic files and their plan, clients, transactions, headers."""
