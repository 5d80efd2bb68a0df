"""HTTP: events are appended to Kafka, memory is read from Redis. Nothing here writes memory."""
