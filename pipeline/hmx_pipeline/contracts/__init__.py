"""Contracts: models, limits, keys, headers and codes of the specifications and topics. Pure; all may import it."""
