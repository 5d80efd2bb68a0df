"""A new layout of Redis is filled beside the old one, which serves until then and goes when nobody uses it."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.local.ports import free_ports
from hmx_pipeline.settings import Settings
from hmx_pipeline.store import layouts
from hmx_pipeline.store.atomic_blocks import connect
from hmx_pipeline.store.layouts import Layouts
from hmx_pipeline.store.redis_keys import Keys
from tests.stack.test_erase import MINE, OTHERS
from tests.support.pipeline import Pipeline, new_settings, running
from tests.support.service import is_problem
from tests.support.waiting import until

NEXT = """
import sys
import hmx_pipeline.store.redis_keys as layout
layout.LAYOUT += 1
{first}
from hmx_pipeline.cli.app import main
main()
"""
"""The command line of a version with the next layout."""
HELD = """
import time, pathlib
from hmx_pipeline.store.atomic_blocks import Blocks
applied = Blocks.apply
def held(*given):
    while not pathlib.Path({file!r}).exists():
        time.sleep(0.05)
    return applied(*given)
Blocks.apply = held
"""
"""Fills nothing until the file is there."""


def keys_of(settings: Settings) -> list[bytes]:
    client = connect(settings.redis_url)
    return [key for key in client.scan_iter(f"{settings.topic_prefix}hmx:*") if not key.endswith(b"hmx:layouts")]


def asked(port: int) -> httpx.Response:
    body = {"query": "Where is the staging cluster?", "subject_id": "bob"}
    headers = {"X-HMX-Tenant": "acme"}
    return httpx.post(f"http://127.0.0.1:{port}/v1/hmx/context-packs", json=body, headers=headers)


def entries(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    assert answer.json()["metadata"]["memory_complete"] is True
    return [entry["content"] for entry in answer.json()["entries"]]


@pytest.fixture
def pipeline(kafka: str, redis_url: str, tmp_path: Path) -> Iterator[Pipeline]:
    made = new_settings(kafka, redis_url)
    with running(made, tmp_path, "worker", "materialiser", "service", partitions=2) as started:
        assert publish([*MINE, *OTHERS], made).complete
        wait_for_all(made)
        yield started


@pytest.mark.requirement("Y23")
def test_packs_come_from_the_old_layout_until_the_new_one_is_whole(pipeline: Pipeline, tmp_path: Path) -> None:
    settings, file = pipeline.settings, tmp_path / "go on"
    ports = dict(zip(("materialiser_port", "service_port"), free_ports(2), strict=True))
    told = entries(asked(settings.service_port))
    assert told
    held = ("-c", NEXT.format(first=HELD.format(file=str(file))))
    pipeline.start("materialiser-2", ready=False, program=held, **ports)
    pipeline.start("service-2", ready=False, program=("-c", NEXT.format(first="")), **ports)
    until(lambda: answers(ports["service_port"]), "the new service answers")
    for probe in ("startupz", "readyz"):
        assert httpx.get(f"http://127.0.0.1:{ports['service_port']}/{probe}").status_code == 503
    is_problem(asked(ports["service_port"]), 503, "memory_incomplete")
    assert entries(asked(settings.service_port)) == told
    file.touch()
    pipeline.await_ready("service-2", ports["service_port"])
    assert entries(asked(ports["service_port"])) == told
    assert entries(asked(settings.service_port)) == told, "both serve while both are used"


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/livez").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.requirement("Y23")
def test_a_layout_goes_when_nobody_uses_it(pipeline: Pipeline, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = pipeline.settings
    client, keys = connect(redis_url), Keys(settings.topic_prefix)
    unknown = f"{settings.topic_prefix}hmx:1.1:{{acme}}:rows"
    client.set(unknown, "of a version that noted no use")
    client.set(f"x{unknown}", "of another pipeline")
    before = set(keys_of(settings)) - {unknown.encode()}
    old = Layouts(client, keys)
    old.use()
    pipeline.stop("service")
    pipeline.stop("materialiser")
    monkeypatch.setattr("hmx_pipeline.store.redis_keys.LAYOUT", 99)
    monkeypatch.setattr(layouts, "ROUND_S", 0.0)
    new = Layouts(client, keys_ := Keys(settings.topic_prefix))
    client.set(own := keys_.positions, "ours")
    new.use()
    new.clear()
    assert {*before, unknown.encode(), own} == set(keys_of(settings)), "it was used a moment ago"
    assert new.replaces()
    monkeypatch.setattr(layouts, "UNUSED_S", -1)
    monkeypatch.setattr(layouts, "PAGE", 5)
    until(lambda: not new.clear() and not new.replaces(), "the others are gone")
    assert keys_of(settings) == [own]
    assert client.get(f"x{unknown}")
    client.delete(f"x{unknown}", own)


def test_a_layout_that_is_used_again_while_it_goes_is_left_alone(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, prefix = connect(redis_url), f"{uuid4().hex}-"
    old = Layouts(client, keys := Keys(prefix))
    positions, before = keys.positions, [f"{keys.root}:{{acme}}:{n}".encode() for n in range(50)]
    client.mset(dict.fromkeys([*before, positions], "x"))
    client.hset(keys.layouts, keys.root, 0)
    monkeypatch.setattr("hmx_pipeline.store.redis_keys.LAYOUT", 99)
    monkeypatch.setattr(layouts, "PAGE", 5)
    new = Layouts(client, Keys(prefix))
    new._begin()
    assert not client.exists(positions)
    new._page()
    old.use()
    left = client.exists(*before)
    while new._cursor:
        new._page()
    new._end()
    assert client.exists(*before) == left > 0
    assert new.replaces()
    client.unlink(*before, keys.layouts)
