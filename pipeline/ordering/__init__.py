"""The order of one session: what is released, what waits, what is late. Pure."""
