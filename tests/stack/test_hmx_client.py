"""The client as a distribution of its own: it appends, reads its own writes, corrects and erases, both ways of calling,
and says by their reason why a call failed."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import hmx_client
from hmx_client import AgentMemory, AsyncClient, Client, HmxError, calls, message
from hmx_pipeline.settings import Settings
from tests.support.pipeline import new_settings, running
from tests.support.waiting import until


@pytest.fixture(scope="module")
def settings(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    made = new_settings(kafka, redis_url)
    with running(made, tmp_path_factory.mktemp("logs"), "worker", "materialiser", "service", partitions=1):
        yield made


def test_it_reads_its_own_writes_and_corrects_them(settings: Settings) -> None:
    with Client(settings.service_url, tenant="acme") as memory:
        said = message("s1", 0, "The staging cluster is in Frankfurt.")
        first, again = memory.append(said, {"event_type": "message"}), memory.append(said)
        assert (first.accepted, [(one.index, one.reason) for one in first.rejected]) == (1, [(1, "missing_field")])
        assert again.accepted == 1, "the log takes it, and the pipeline knows it for a duplicate"
        pack = memory.pack("Where is the staging cluster?", after=again.after, token_budget=600)
        assert any("Frankfurt" in entry.content for entry in pack.entries)
        assert "Frankfurt" in pack.text
        assert pack.complete
        assert pack.raw["query_context"] == "Where is the staging cluster?"
        until(lambda: memory.knowledge().records, "a fact is known")
        page = memory.knowledge(limit=1)
        name = page.records[0]["record_id"]
        assert memory.record(name)["record_id"] == name
        assert memory.correct(name, value="Oslo", reason="it moved")
        assert memory.artifacts().records == []
        assert memory.erase(session="s1")


def test_all_of_it_may_be_awaited(settings: Settings) -> None:
    async def asked() -> None:
        async with AsyncClient(settings.service_url, tenant="globex") as memory:
            appended = await memory.append(message("s1", 0, "Never deploy on a Friday."))
            pack = await memory.pack("May I deploy?", after=appended.after)
            assert "Friday" in pack.text
            while not (records := (await memory.knowledge()).records):
                pause = asyncio.sleep(0.1)
                await pause
            assert await memory.retract(records[0]["record_id"])
            assert await memory.erase(all=True)
            with pytest.raises(HmxError, match="not_found"):
                await memory.artifact("none")

    asyncio.run(asked())


def test_an_agent_recalls_what_it_told_and_nothing_of_another_person(settings: Settings) -> None:
    question = "Where is the staging cluster?"
    with AgentMemory(settings.service_url, tenant="initech", subject="ann") as anns:
        anns.said("c1", "user", "The staging cluster is in Frankfurt.", "1")
        anns.tell("c1", "message", {"role": "user", "text": "x" * 3_000_000}, "2")
        assert anns.flush(60)
        assert (anns.lost, anns.refused) == (0, 1), "an event of 3 MB is refused, and the other is not"
        until(lambda: "Frankfurt" in anns.recall(question), "memory has it")
    with AgentMemory(settings.service_url, tenant="initech", subject="bob") as bobs:
        assert "Frankfurt" not in bobs.recall(question)


def test_it_needs_nothing_of_the_pipeline() -> None:
    source = Path(hmx_client.__file__).parents[1]
    program = "import hmx_client, sys; sys.exit(any(name.startswith('hmx_pipeline') for name in sys.modules))"
    subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": str(source)}, check=True)


def test_errors_say_why(settings: Settings) -> None:
    with Client(settings.service_url, tenant="acme") as memory:
        with pytest.raises(HmxError) as found:
            memory.artifact("no/body")
        assert (found.value.reason, found.value.status) == ("not_found", 404)
        with pytest.raises(HmxError) as wrong:
            memory.append({"event_type": "message"}, {})
        assert (wrong.value.status, len(wrong.value.raw["results"])) == (422, 2)
    with Client("http://127.0.0.1:1", tenant="acme", tries=2) as nobody, pytest.raises(HmxError) as away:
        nobody.pack("Is anybody there?")
    assert away.value.reason == "no_answer"


@pytest.mark.parametrize(
    ("status", "after", "pause"),
    [(200, "", None), (404, "", None), (503, "2", 2.0), (429, "900", 10.0), (503, "", 0.5)],
)
def test_it_waits_as_long_as_it_is_told_to(status: int, after: str, pause: float | None) -> None:
    headers = {"Retry-After": after} if after else {}
    assert calls.pause_s(httpx.Response(status, headers=headers), 1) == pause
