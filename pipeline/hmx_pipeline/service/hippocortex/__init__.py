"""Hippocortex API under `/v1`: the routes and field names of the public Hippocortex clients.

It maps to the same log and memory. Every answer is an envelope; a key selects the tenant.
"""
