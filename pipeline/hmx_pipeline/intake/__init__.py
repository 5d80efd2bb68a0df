"""Intake: validates a record's bytes, redacts secrets, and turns events into steps. Pure."""
