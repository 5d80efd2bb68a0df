"""Faust: application, agents, consumer group, assignment; and the runner that makes a stage exactly once on it."""
