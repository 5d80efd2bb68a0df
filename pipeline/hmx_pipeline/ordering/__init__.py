"""The reorder window: which events of a session are released, wait or are late. Pure."""
