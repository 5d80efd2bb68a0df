"""An idle connection outlasts those that clients keep, so that none ends while a client sends a request on it."""

from fastapi import FastAPI

from hmx_pipeline.service.main import HttpServer

POOLED_S = {"node": 4, "httpx": 5, "aiohttp": 15}
"""How long clients keep an idle connection, as they come."""


def test_the_service_never_ends_an_idle_connection_before_its_client() -> None:
    assert HttpServer.of(FastAPI()).config.timeout_keep_alive > max(POOLED_S.values())
