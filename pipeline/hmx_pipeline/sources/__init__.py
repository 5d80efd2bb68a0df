"""Sources: other queues feed the events topic, one event a message."""
