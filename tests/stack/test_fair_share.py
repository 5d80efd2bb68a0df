"""One tenant's costly requests take their turn: another's are answered meanwhile, and so is `/livez`."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import orjson
import pytest

from tests.support.pipeline import Pipeline, new_settings
from tests.support.records import event
from tests.support.service import is_problem
from tests.support.waiting import until

PARALLEL = 45
ASKED = 4
WAIT_S = 120.0
JSON, NDJSON = "application/json", "application/x-ndjson"


def of_many_keys() -> tuple[bytes, str]:
    """One event whose 8,000 keys look like secrets' names."""
    content = {f"aws_secret_{n:05d}": n for n in range(8_000)}
    return orjson.dumps({**event(), "tenant_id": "someone else", "content": content}), JSON


def of_many_events() -> tuple[bytes, str]:
    """Each within every bound, and with a secret to look for."""
    one = event()
    lines = (
        orjson.dumps({**one, "tenant_id": "someone else", "content": {"text": f"password=hunter{n} " + "word " * 40}})
        for n in range(2_500)
    )
    return b"\n".join(lines), NDJSON


@pytest.mark.parametrize("costly", [of_many_keys, of_many_events])
def test_a_tenant_s_parallel_costly_posts_keep_nobody_else_waiting(
    costly: Callable[[], tuple[bytes, str]], tmp_path: Path
) -> None:
    """What is sent names another tenant, so that it is refused once it has been checked, and Kafka is not needed."""
    settings = new_settings("127.0.0.1:1", "redis://127.0.0.1:1")
    pipeline = Pipeline(settings, tmp_path)
    pipeline.start("service", ready=False)
    content, kind = costly()
    answered: list[int] = []

    def greedy(client: httpx.Client) -> None:
        headers = {"X-HMX-Tenant": "greedy", "Content-Type": kind}
        answered.append(client.post("/v1/hmx/events", content=content, headers=headers).status_code)

    try:
        limits = httpx.Limits(max_connections=PARALLEL + 1)
        with (
            httpx.Client(base_url=settings.service_url, timeout=WAIT_S, limits=limits) as client,
            ThreadPoolExecutor(PARALLEL) as pool,
        ):
            until(lambda: _answers(client))
            sent = [pool.submit(greedy, client) for _ in range(PARALLEL)]
            until(lambda: bool(answered), "the first of the costly posts is answered")
            small = {"headers": {"X-HMX-Tenant": "small", "Content-Type": JSON}, "content": orjson.dumps(event())}
            for _ in range(ASKED):
                is_problem(client.post("/v1/hmx/events", **small), 422, "tenant_mismatch")
                assert client.get("/livez").text == "alive\n"
            before = answered.count(422)  # a 503 has waited too long on a busy machine, and took no turn
            for one in sent:
                one.result()
    finally:
        pipeline.stop_all()
    assert before < PARALLEL // 2, "another tenant's few small requests waited for most of the costly ones"
    assert set(answered) <= {422, 503}


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/livez").is_success
    except httpx.TransportError:
        return False
