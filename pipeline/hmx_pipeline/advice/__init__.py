"""Advice for a running session, learnt from its tenant's past sessions: next steps, recoveries, files. Pure."""
