"""Sources: other queues feed the events topic, or, from an OpenTelemetry collector, the service.

Each message is one event, a collector's an export of spans.
"""
