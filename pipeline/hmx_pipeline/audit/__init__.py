"""Audits: conservation of records, replay comparison, dead letter replay, explanations of records and artifacts."""
