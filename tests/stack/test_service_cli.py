"""`hmx artifacts` and `hmx pack` on a real Redis, with and without a service; once as a process, else in this one."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from hmx_pipeline.contracts.pack import ContextPack
from hmx_pipeline.service.api_keys import Grant, Scope, add
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.atomic_blocks import Blocks, connect
from hmx_pipeline.store.projection import commands_of
from hmx_pipeline.store.redis_keys import Keys
from tests.support.memory import artifact, artifact_as_read, episode, episode_as_read
from tests.support.own_command import hmx
from tests.support.pipeline import environment, new_settings
from tests.support.service import serving

LONG = "A title [bold]in brackets[/] with \x1b[31mcolours and more words than a line of the table has room for"


@pytest.fixture(scope="module")
def settings(redis_url: str) -> Iterator[Settings]:
    """Two tenants."""
    made = new_settings("127.0.0.1:1", redis_url)
    client, keys = connect(redis_url), Keys(made.topic_prefix)
    compiled = [
        artifact("run-00000001", LONG, metadata={"lineage_tags": ["eu"]}),
        artifact("run-00000002", "Old", status="superseded", superseded_by="run-00000003"),
        artifact("run-00000003", "New", status="draft", supersedes="run-00000002", version=2),
        artifact("elsewhere-1", "Of globex", tenant="globex"),
    ]
    read = [artifact_as_read(item, offset) for offset, item in enumerate(compiled)]
    read += [
        episode_as_read(episode(f"e{n}", f"{word} a title", index=n, tags=["eu", word], **_vector(n)), n)
        for n, word in enumerate(("one", "two"))
    ]
    for n, record in enumerate(read):
        assert Blocks(client, keys).apply(f"{record.topic}/{n}", None, 1, commands_of(keys, [record])).at == 1
    yield made
    for key in client.scan_iter(match=f"{made.topic_prefix}*"):
        client.delete(key)
    client.close()


def _vector(n: int) -> dict[str, Any]:
    return {"embeddings": [1 - n, n], "metadata": {"x-hmx-embedding-model": "mini"}}


def printed(settings: Settings, *words: str) -> Any:
    done = hmx(settings, *words, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_as_a_process_it_prints_the_same(settings: Settings) -> None:
    words = ("pack", "one title of colours", "--fill", "budget", "--tenant", "acme", "--text")
    argv = [sys.executable, "-m", "hmx_pipeline.cli", *words]
    done = subprocess.run(argv, env=environment(settings), capture_output=True, text=True, timeout=180)
    assert (done.returncode, done.stdout) == (0, hmx(settings, *words).stdout), done.stderr


def test_artifacts_fit_eighty_columns_and_cannot_steer_the_terminal(settings: Settings) -> None:
    done = hmx(settings, "artifacts", "--tenant", "acme")
    assert done.exit_code == 0, done.stderr
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    assert "\x1b" not in done.stdout
    assert "[bold]in" in done.stdout
    assert "00000001" in done.stdout
    assert "00000002" not in done.stdout, "what is superseded is not listed"


def test_artifacts_are_chosen_by_status_and_type(settings: Settings) -> None:
    def ids(*words: str) -> list[str]:
        return [a["artifact_id"] for a in printed(settings, "artifacts", "--tenant", "acme", *words)["artifacts"]]

    assert ids() == ["run-00000001", "run-00000003"]
    assert ids("--status", "superseded") == ["run-00000002"]
    assert ids("--type", "failure_playbook") == []


def test_one_artifact_is_found_by_the_end_of_its_id_in_any_status(settings: Settings) -> None:
    assert printed(settings, "artifacts", "00000002", "--tenant", "acme")["artifact_id"] == "run-00000002"
    shown = hmx(settings, "artifacts", "00000002", "--tenant", "acme").stdout
    assert "superseded by" in shown
    assert "run-00000003" in shown
    assert "apply manifests" in shown
    unknown = hmx(settings, "artifacts", "nope", "--tenant", "acme")
    assert (unknown.exit_code, unknown.stdout) == (1, "")
    assert "nope" in unknown.stderr


@pytest.mark.requirement("C-01")
def test_a_pack_is_printed_with_its_sections_sources_and_budget(settings: Settings) -> None:
    asked = ("pack", "one title of colours", "--fill", "budget", "--tenant", "acme", "--budget", "400")
    made = ContextPack.model_validate(printed(settings, *asked))
    shown = hmx(settings, *asked).stdout
    assert made.entries
    for entry in made.entries:
        assert entry.section in shown
        assert entry.source_id in shown
    assert f"{made.token_budget.used} of 400 tokens" in shown
    only = ContextPack.model_validate(printed(settings, *asked, "--section", "episodes"))
    assert {entry.section for entry in only.entries} == {"episodes"}


def test_what_else_a_pack_can_be_asked_for_is_an_option(settings: Settings) -> None:
    asked = ("pack", "one two title of colours yesterday", "--fill", "budget", "--tenant", "acme")
    said = printed(settings, *asked, "--strategy", "depth_first", "--from-session", "s1", "--include", "superseded",
                   "--as-of", "2026-03-14T03:00:00Z", "--explain")  # fmt: skip
    assert {entry["source_id"] for entry in said["entries"]} == {"e0", "e1"}
    assert said["assembly_metadata"]["assembly_strategy"] == "depth_first"
    assert [one["rank"] for one in said["metadata"]["explained"]["entries"]] == [1, 2]
    shown = hmx(settings, *asked, "--explain", "--budget", "40").stdout
    assert "about 2026-03-13T00:00:00.000Z/2026-03-14T00:00:00.000Z" in shown
    assert "matches" in shown
    assert "a budget of" in shown
    tagged = printed(settings, *asked, "--tag", "eu", "--tag", "two")
    assert {entry["source_id"] for entry in tagged["entries"]} == {"e1"}
    wrong = hmx(settings, *asked, "--as-of", "yesterday")
    assert (wrong.exit_code, "as_of" in wrong.stderr) == (2, True)


def test_drops_are_printed_with_their_reasons(settings: Settings) -> None:
    asked = ("pack", "one title of colours", "--fill", "budget", "--tenant", "acme", "--budget", "1")
    dropped = printed(settings, *asked)["dropped_entries"]
    shown = hmx(settings, *asked).stdout
    assert dropped
    for drop in dropped:
        assert drop["drop_reason"] in shown
        assert drop["source_id"] in shown


@pytest.mark.parametrize("words", [("artifacts",), ("pack", "q")])
def test_of_several_tenants_one_has_to_be_named(settings: Settings, words: tuple[str, ...]) -> None:
    for tenant in ((), ("--tenant", "nobody")):
        done = hmx(settings, *words, *tenant)
        assert (done.exit_code, done.stdout) == (1, "")
        assert "acme, globex" in done.stderr


@pytest.mark.requirement("E-13")
def test_a_question_s_vector_is_a_file(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "vector.json"
    file.write_text("[0.5, 0]")
    said = printed(settings, "pack", "unheard of", "--tenant", "acme", "--vector", str(file), "--model", "mini")
    assert [entry["source_id"] for entry in said["entries"]] == ["e0"]


def test_a_pack_that_cannot_be_asked_for_is_wrong_usage(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "vector.json"
    file.write_text("[")
    for words in (("--budget", "0"), ("--vector", str(file)), ("--vector", str(tmp_path / "none"))):
        done = hmx(settings, "pack", "q", "--tenant", "acme", *words)
        assert done.exit_code == 2
        assert words[0] in done.stderr


def test_without_memory_and_without_redis_it_says_what_to_do(redis_url: str) -> None:
    empty = hmx(new_settings("127.0.0.1:1", redis_url), "artifacts")
    assert (empty.exit_code, "hmx publish" in empty.stderr) == (1, True)
    away = hmx(new_settings("127.0.0.1:1", "redis://127.0.0.1:1"), "artifacts")
    assert (away.exit_code, "Redis does not answer" in away.stderr) == (1, True)
    assert "Traceback" not in away.stderr


def test_a_pack_as_text_is_printed_line_by_line(settings: Settings) -> None:
    asked = ("pack", "one two title", "--tenant", "acme", "--fill", "budget", "--text")
    told = hmx(settings, *asked)
    assert told.exit_code == 0, told.stderr
    lines = printed(settings, *asked)["metadata"]["as_text"].split("\n")
    assert len(lines) > 1
    assert len(told.stdout.rstrip("\n").split("\n")) == len(lines)


ASKED = [
    ("artifacts", "--tenant", "acme"),
    ("artifacts", "00000002", "--tenant", "acme"),
    ("artifacts", "nope", "--tenant", "acme"),
    ("artifacts",),
    ("artifacts", "--tenant", "nobody"),
    ("knowledge", "list", "--tenant", "acme", "--json"),
    ("knowledge", "list", "--tenant", "acme", "--since", "yesterday"),
    ("pack", "one title of colours", "--fill", "budget", "--tenant", "acme", "--text"),
    ("pack", "q", "--tenant", "acme", "--as-of", "yesterday"),
]


@pytest.mark.parametrize("words", ASKED)
def test_a_service_that_is_asked_has_the_same_answers(
    settings: Settings, service: httpx.Client, words: tuple[str, ...]
) -> None:
    asked = hmx(settings, *words, more={"HMX_SERVICE_URL": str(service.base_url)})
    itself = hmx(settings, *words)
    assert (asked.exit_code, asked.stdout, asked.stderr) == (itself.exit_code, itself.stdout, itself.stderr)
    assert asked.output


def test_a_service_that_is_asked_makes_the_same_pack(settings: Settings, service: httpx.Client) -> None:
    words = ("pack", "one two title", "--fill", "budget", "--tenant", "acme", "--explain", "--json")
    asked = json.loads(hmx(settings, *words, more={"HMX_SERVICE_URL": str(service.base_url)}).stdout)
    itself = printed(settings, *words[:-1])
    for pack in (asked, itself):
        del pack["assembly_metadata"]["assembly_duration_ms"], pack["created_at"]
    assert asked == itself


def test_a_service_that_wants_keys_is_shown_one_unless_redis_can_be_read(settings: Settings, tmp_path: Path) -> None:
    file, words = tmp_path / "keys", ("artifacts", "--tenant", "acme")
    reads = add(file, Grant("acme", frozenset({Scope.READ})))
    away = replace(settings, redis_url="")
    with serving(replace(settings, api_keys=str(file))) as service:
        url = {"HMX_SERVICE_URL": str(service.base_url), "HMX_STATE": str(tmp_path)}
        shown = hmx(away, *words, more={**url, "HMX_API_KEY": reads})
        assert (shown.exit_code, shown.stdout) == (0, hmx(settings, *words).stdout)
        assert hmx(settings, *words, more=url).stdout == shown.stdout
        stack = {"redis_url": settings.redis_url, "service_url": "http://127.0.0.1:1"}
        (tmp_path / "stack.json").write_text(json.dumps(stack))
        (tmp_path / "control.key").write_text("x")
        other = hmx(away, *words, more=url)
        assert (other.exit_code, "HMX_API_KEY" in other.stderr) == (1, True), "the stack here has another memory"
        (tmp_path / "stack.json").unlink()
        unnamed = hmx(away, "artifacts", more={**url, "HMX_API_KEY": reads})
        assert (unnamed.exit_code, "name it with --tenant" in unnamed.stderr) == (1, True)
        others = hmx(away, "artifacts", "--tenant", "globex", more={**url, "HMX_API_KEY": reads})
        assert (others.exit_code, "globex" not in others.stdout) == (1, True)
        for more in (url, {**url, "HMX_API_KEY": "hx_live_wrong"}):
            refused = hmx(away, *words, more=more)
            assert (refused.exit_code, "HMX_API_KEY" in refused.stderr) == (1, True)


def test_who_reads_redis_needs_no_kafka_no_key_and_no_turn_of_a_limit(settings: Settings) -> None:
    alone = replace(settings, kafka_bootstrap="", rate_limit=1)
    for command in (("artifacts",), ("knowledge", "list"), ("pack", "one title", "--text")):
        words = (*command, "--tenant", "acme")
        read, usual = hmx(alone, *words, more={"HMX_API_KEY": "hx_live_other"}), hmx(settings, *words)
        assert (read.exit_code, read.stdout, read.stderr) == (0, usual.stdout, usual.stderr)


def test_without_a_service_it_says_what_to_do(settings: Settings, tmp_path: Path) -> None:
    silent = hmx(settings, "artifacts", more={"HMX_SERVICE_URL": "http://127.0.0.1:1"})
    assert (silent.exit_code, "`hmx status` shows what runs" in str(silent.exception)) == (1, True)
    nowhere = hmx(replace(settings, redis_url=""), "artifacts", more={"HMX_STATE": str(tmp_path)})
    assert (nowhere.exit_code, "hmx up" in nowhere.stderr) == (1, True)
