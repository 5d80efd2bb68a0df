"""A process whose port is taken says which port it is, and what to do."""

import socket
from typing import Any, cast

import pytest

from hmx_pipeline.local.process import PORT_TAKEN
from hmx_pipeline.observe.health_server import Health, serve_health
from hmx_pipeline.settings import SettingsError


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"127.0.0.1:{port}.*hmx doctor") as raised:
            serve_health("127.0.0.1", port, cast("Health", _Health()))
    assert PORT_TAKEN.decode() in str(raised.value).lower(), "the local stack takes other ports then"


class _Health:
    def __getattr__(self, name: str) -> Any:
        return lambda: (True, "")
