"""Retrieval: query plans, indexed terms, BM25 and vector search in memory, and scores. Pure."""
