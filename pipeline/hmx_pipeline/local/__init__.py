"""Local stack: Kafka, Redis and the pipeline as child processes, without Docker, Java or root."""
