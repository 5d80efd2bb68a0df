"""HTTP service (FastAPI): appends events to Kafka and reads memory from Redis; it never writes memory."""
