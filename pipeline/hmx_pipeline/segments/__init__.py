"""Segments of a session: where they are cut, and the actions, outcome and intent of each. Pure."""
