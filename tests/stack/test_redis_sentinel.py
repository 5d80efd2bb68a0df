"""Redis behind Sentinel: the primary is asked for, and asked for anew when it has moved."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import RedisError

from hmx_pipeline.local.ports import free_ports
from hmx_pipeline.local.redis import _binary
from hmx_pipeline.settings import SettingsError
from hmx_pipeline.store.atomic_blocks import connect

WAIT_S = 30.0


@pytest.fixture
def sentinel(tmp_path: Path, redis_url: str) -> Iterator[int]:
    """Its port; it watches the suite's server under the name `primary`."""
    (port,) = free_ports(1)
    host, _, behind = redis_url.partition("//")[2].partition("/")[0].partition(":")
    file = tmp_path / "sentinel.conf"
    file.write_text(f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\nsentinel monitor primary {host} {behind} 1\n")
    with subprocess.Popen([_binary(None), str(file), "--sentinel"], stdout=subprocess.DEVNULL) as process:
        try:
            yield port
        finally:
            process.kill()


def test_the_primary_is_found_through_sentinel(sentinel: int, redis_url: str) -> None:
    plain = connect(redis_url)
    plain.set("sentinel-test", b"here")
    client = connect(f"redis+sentinel://127.0.0.1:1,127.0.0.1:{sentinel}/primary/0")
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            assert client.get("sentinel-test") == b"here"
            break
        except RedisError:  # it has just started
            assert time.monotonic() < deadline
            time.sleep(0.2)
    assert plain.delete("sentinel-test")
    client.close()
    plain.close()


def test_a_url_that_is_none_is_refused_without_its_password() -> None:
    for url in ("redis+sentinel://user:Zq7Xw2@host:1", "redis://:Zq7Xw2/9@host:1", "http://:Zq7Xw2@host"):
        with pytest.raises(SettingsError, match="HMX_REDIS_URL is no URL of a Redis") as raised:
            connect(url)
        assert "Zq7Xw2" not in str(raised.value)
