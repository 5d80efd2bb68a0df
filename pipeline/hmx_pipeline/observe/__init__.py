"""Observability: metrics, logs, health checks, lag, traces."""
