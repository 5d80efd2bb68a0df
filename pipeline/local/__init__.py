"""Kafka, Redis and the whole pipeline as child processes of one supervisor: no Docker, no Java, no root."""
