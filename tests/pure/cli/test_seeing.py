"""What status, tables and dead letters print: within 100 columns however large the numbers, and nothing unescaped."""

import json
import shlex
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from hmx_pipeline.audit.dead_letter_replay import ReplaySummary
from hmx_pipeline.audit.grow import Growth
from hmx_pipeline.cli import dlq, fingerprint, home, retention, service_client, status, table, topics
from hmx_pipeline.cli.app import application
from hmx_pipeline.queries.dead_letter_policy import ReplayDecision
from hmx_pipeline.queries.tenant_query import UNSET, TenantSetting
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.state_tables import PatternRow, SessionRow, SessionSort, in_order
from hmx_pipeline.store.fetch import Store
from tests.support.issuer import certificate

ODD = "[bold]x[/]\x1b[31m" + "long " * 40
LARGE = 9_876_543_210


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What a function prints in 100 columns."""

    def run(show: Callable[..., None], *arguments: Any) -> str:
        console = Console(width=100, highlight=False)
        monkeypatch.setattr(f"{getattr(show, 'func', show).__module__}.OUT", console)
        with console.capture() as captured:
            show(*arguments)
        text = captured.get()
        assert "\x1b" not in text
        assert max(map(len, text.splitlines())) <= 100
        return text

    return run


def partition(**changes: Any) -> dict[str, Any]:
    plain = {
        "partition": 7, "position": LARGE, "lag": LARGE, "lag_seconds": 86_400.5, "waiting": 1_024, "state": LARGE,
        "owner": "worker-1", "set_aside": False,
    }  # fmt: skip
    return plain | changes


def stages(*rows: dict[str, Any], **counts: int) -> dict[str, Any]:
    return {"sessions": {"lag": sum(row["lag"] for row in rows), "counts": counts, "partitions": list(rows)}}


def test_the_address_of_each_process_of_the_stack_is_shown(printed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("kafka-1", "redis", "topics", "worker", "materialiser", "service")
    running = {
        "kafka_bootstrap": "127.0.0.1:1", "redis_url": "redis://127.0.0.1:2/0",
        "health": {"worker": "http://127.0.0.1:3", "materialiser": "http://127.0.0.1:4", "service": "http://127.0.0.1:5"},
        "components": {name: {"state": "ready", "pid": None, "restarts": 0} for name in names},
        "service_url": "http://127.0.0.1:5",
    }  # fmt: skip
    monkeypatch.setattr(status, "_show_memory", lambda _: None)
    lines = {line.split()[0]: line for line in printed(status._show, running, {}, {}, {}).splitlines() if line}
    for name, port in zip((*names[:2], *names[3:]), range(1, 6), strict=True):
        assert f"127.0.0.1:{port}" in lines[name]


def test_where_the_demo_runs_and_no_other_stack_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings()
    monkeypatch.setattr(status.local, "status", lambda _: None)
    assert status.no_stack(settings) == "no stack runs in .hmx: start one with `hmx up`"
    monkeypatch.setattr(status.local, "status", lambda state: {} if state == status.DEMO else None)
    assert status.no_stack(settings).endswith("that of the demo runs: export HMX_STATE=.hmx/demo")


def test_the_service_of_a_stack_is_not_asked_about_another_memory(tmp_path: Path) -> None:
    stack = {"kafka_bootstrap": "k:1", "redis_url": "redis://r:1", "service_url": "http://s:1"}
    (tmp_path / "stack.json").write_text(json.dumps(stack))
    (tmp_path / "control.key").write_text("x")
    own = {"HMX_STATE": str(tmp_path)}
    assert Settings.load(own).service_url == Settings.load({**own, "HMX_REDIS_URL": "redis://r:1"}).service_url
    assert Settings.load(own).service_url == "http://s:1"
    other = {**own, "HMX_REDIS_URL": "redis://other:1"}
    assert Settings.load(other).service_url == ""
    assert Settings.load({**other, "HMX_SERVICE_URL": "http://t:1"}).service_url == "http://t:1"


@pytest.mark.parametrize("words", ["status", "artifacts", "pack q", "knowledge list"])
@pytest.mark.parametrize("said", [b"[]", b'{"ok": 1}', b"<p>", b'{"problems": [], "stages": null, "tenants": null}'])
def test_what_answers_and_is_not_the_service_is_said_to_be_something_else(
    said: bytes, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(service_client, "_over_http", lambda *_: (200, said))
    given = {"HMX_SERVICE_URL": "http://s:1", "HMX_STATE": str(tmp_path), "COLUMNS": "200"}
    done = CliRunner().invoke(application(), words.split(), env=given)
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert "HMX_SERVICE_URL names something else" in done.output


def test_where_there_is_only_a_service_its_silence_is_why_nothing_is_known(
    printed: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = {"HMX_SERVICE_URL": "http://127.0.0.1:1", "HMX_STATE": str(tmp_path), "COLUMNS": "200"}
    assert "http://127.0.0.1:1 does not answer" in CliRunner().invoke(application(), ["status"], env=given).output
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert printed(home.home).count("http://127.0.0.1:1 does not answer") == 3
    monkeypatch.setattr(service_client, "_over_http", lambda *_: (200, b"[]"))
    assert printed(home.home).count("HMX_SERVICE_URL names something else") == 3


@pytest.mark.parametrize("url", ["memory:8080", "localhost:1", "//memory", "ftp://memory", "http://", "http://m:x"])
def test_an_address_that_is_none_is_not_asked_and_shown_no_key(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: Any) -> Any:
        raise OSError("connected")

    monkeypatch.setattr("socket.create_connection", connect)
    with pytest.raises(service_client.SilentServiceError, match="set them to http://host:port") as raised:
        service_client.ServiceClient(Settings(service_url=url, api_key="hx_live_x")).ask("GET", "tenants")
    assert "hx_live_x" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "key", "warned"),
    [
        ("http://memory.example.com:8080", "hx_live_x", 1),
        ("http://ann:secret@10.0.0.7", "hx_live_x", 1),
        ("http://localhost:8080", "hx_live_x", 0),
        ("http://127.0.0.1:8080", "hx_live_x", 0),
        ("http://[::1]:8080", "hx_live_x", 0),
        ("https://memory.example.org", "hx_live_x", 0),
        ("http://memory.example.org", "", 0),
        ("http://[", "hx_live_x", 0),
    ],
)
def test_a_key_that_others_can_read_on_the_way_is_warned_of_once(
    url: str, key: str, warned: int, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        service_client.ServiceClient(Settings(service_url=url, api_key=key))
    said = capsys.readouterr().err
    assert said.count("HMX_API_KEY is sent unencrypted") == warned
    assert "secret" not in said


def test_a_certificate_that_is_not_trusted_is_said_to_be_that(tmp_path: Path) -> None:
    file, key = certificate(tmp_path, 9)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, key)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with suppress(OSError), context.wrap_socket(server.accept()[0], server_side=True):
                pass

        Thread(target=answer, daemon=True).start()
        asking = service_client.ServiceClient(Settings(service_url=f"https://127.0.0.1:{server.getsockname()[1]}"))
        with pytest.raises(service_client.SilentServiceError, match=r"is not trusted .*SSL_CERT_FILE") as raised:
            asking.ask("GET", "tenants")
    assert "hmx status" not in str(raised.value)


def test_where_nothing_would_leave_it_is_said(printed: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = SimpleNamespace(before={}, leaves=[], policy="all:90d")
    monkeypatch.setattr("hmx_pipeline.queries.retention_query.plan", lambda *_: found)
    monkeypatch.setattr(retention, "opened", nullcontext)
    assert printed(retention.plan, "acme").strip() == "nothing would leave by all:90d"


@pytest.mark.parametrize(("to", "warned"), [("g2", True), ("g2.", False), ("g2-", False)])
def test_a_generations_prefix_without_its_dot_is_noticed(printed: Callable[..., str], to: str, warned: bool) -> None:
    growth = Growth(12, (4, 8), 0, 0)
    assert ("ends without a dot" in printed(partial(topics._show_growth, done=False), growth, to)) is warned


def test_a_tenant_that_nobody_knows_is_said_to_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    unset = [TenantSetting(setting=name, value=value) for name, value in UNSET.items()]
    monkeypatch.setattr("hmx_pipeline.queries.tenant_query.tenant_settings", lambda *_: unset)
    monkeypatch.setattr(Store, "open", lambda _: SimpleNamespace(tenants=lambda: ["acme"]))
    for name, unknown in (("nosuch", True), ("acme", False)):
        said = CliRunner().invoke(application("tenant"), ["tenant", "show", name]).output
        assert ("memory holds nothing of a tenant nosuch" in said) is unknown


def test_what_is_printed_of_an_exported_fingerprint_is_not_taken_for_the_files_digest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = SimpleNamespace(to_json=lambda: b"{}", fingerprint_hash="abc")
    monkeypatch.setattr("hmx_pipeline.queries.fingerprint_query.make_fingerprint", lambda *_: made)
    monkeypatch.setattr(fingerprint, "opened", lambda: nullcontext(SimpleNamespace(tenants=lambda: ["acme"])))
    asked = ["fingerprint", "export", "--out", str(tmp_path / "f.json")]
    said = CliRunner().invoke(application("fingerprint"), asked, env={"COLUMNS": "200"}).output
    assert "3 bytes, fingerprint_hash abc" in said


@pytest.mark.parametrize(
    ("stages", "memory", "problems"),
    [({"sessions": {}}, None, ["Redis away"]), (None, {}, ["Kafka away"]), (None, None, ["Kafka away", "Redis away"])],
)
def test_what_the_service_does_not_know_is_told_with_its_reason(
    stages: Any, memory: Any, problems: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"stages": stages, "memory": memory, "problems": problems}
    monkeypatch.setattr(status, "told", lambda *_: told)
    wanted = ("Kafka away" if stages is None else stages, "Redis away" if memory is None else memory)
    assert status.positions(Settings(), {}) == wanted


MEMORY = {"hmx.episodes.v1/0": {"position": LARGE, "lag": 0, "lag_seconds": 0.0}}


def test_status_shows_every_partition_and_their_sums(printed: Any) -> None:
    found = stages(
        partition(),
        partition(partition=8, owner=None, waiting=None, state=None),
        partition(set_aside=True),
        released=LARGE,
    )
    text = printed(status._show, None, {"worker": {"ready": False, "said": ODD}}, found, MEMORY)
    for word in (
        "worker-1",
        "nobody",
        f"{LARGE:,}",
        f"{3 * LARGE:,}",
        "86400.5",
        "set aside",
        "worker is not ready",
        "[bold]x",
    ):
        assert word in text


def test_reasons_stand_behind_what_they_are_reasons_of() -> None:
    counts = {"duplicate": 2, "rejected": 3, "rejected.not_json": 2, "rejected.poison": 1}
    assert status._counted(counts) == "2 duplicate, 3 rejected (2 not_json, 1 poison)"
    assert status._counted({"rejected.wrong_type": 1}) == "1 rejected.wrong_type"
    assert status._counted({}) == "nothing yet"


@pytest.mark.parametrize(
    ("changes", "well"),
    [
        ({}, True),
        ({"owner": None}, False),
        ({"lag_seconds": 61.0}, False),
        ({"set_aside": True}, False),
        ({"lag": LARGE}, True),
    ],
)
def test_all_is_well_where_each_partition_has_an_owner_and_is_fresh(changes: dict[str, Any], well: bool) -> None:
    found = stages(partition(**{"lag": 0, "lag_seconds": 0.0, **changes}))
    assert status._well(None, {}, found, MEMORY, 60) is well
    assert not status._well(None, {"worker": {"ready": False, "said": ""}}, found, MEMORY, 60)
    assert not status._well(None, {}, "no answer", MEMORY, 60)


def test_rows_of_a_table_fit_and_the_rest_is_counted(printed: Any) -> None:
    rows = [SessionRow(ODD, f"{n}{ODD}", LARGE, 3, LARGE, 1_024, 512, 0) for n in range(30)]
    text = printed(table._show, rows, {"sessions": 30}, 5, False, ("t", "s", "r", "n", "w", "g", "c"), table._session)
    assert "25 more" in text
    assert "all  30 sessions" in text
    pattern = PatternRow("acme", "failure_playbook", "k", 2_048, 2_048, "superseded", "a-1", "123", 0.987, ODD, True, 0)
    columns = ("t", "type", "pattern", "c", "s", "status", "conf.")
    assert "superseded 123 *" in printed(table._show, [pattern], {}, None, False, columns, table._pattern)


def test_the_same_rows_are_sorted_alike_the_highest_first() -> None:
    rows = [SessionRow("a", name, released, 0, 0, 0, 0, 0) for name, released in (("x", 1), ("z", 5), ("y", 5))]
    by_released = in_order(rows, SessionSort.RELEASED)
    assert [row.session for row in by_released] == ["y", "z", "x"]
    assert [row.session for row in in_order(rows[::-1], SessionSort.SESSION)] == ["x", "y", "z"]


def test_a_dry_run_says_that_nothing_was_sent_and_why_the_rest_stays(printed: Any) -> None:
    letter = {"letter": "0:1", "origin": "0:9", "reason": "poison", "tenant": "[bold]", "session": "s", "detail": ""}
    found = ReplaySummary(
        False,
        {"poison": Counter({ReplayDecision.SEND: 2, ReplayDecision.NAMED: 1})},
        {ReplayDecision.SEND: [letter], ReplayDecision.NAMED: []},
    )
    text = printed(dlq._show_returns, found)
    assert "nothing was sent: --yes sends 2 of 3" in text
    assert "[bold]/s" in text
    again = ReplaySummary(False, {"bad_tags": Counter({ReplayDecision.AGAIN: 1})}, {ReplayDecision.AGAIN: []})
    assert "mend it and publish it again" in printed(dlq._show_returns, again)
    assert "no dead letters" in printed(dlq._show_returns, ReplaySummary(True))


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("2h", 7_200), ("7d", 604_800)])
def test_an_age_is_counted_back_from_now(monkeypatch: pytest.MonkeyPatch, text: str, seconds: int) -> None:
    monkeypatch.setattr(dlq.time, "time", lambda: 1_000_000.0)
    assert dlq._since(text) == (1_000_000 - seconds) * 1_000


def test_an_instant_is_taken_as_it_is_and_anything_else_is_refused() -> None:
    assert dlq._since("1970-01-01T00:00:02Z") == 2_000
    for wrong in ("", "2", "h", "2 h", "yesterday", "-2h"):
        with pytest.raises(typer.BadParameter):
            dlq._since(wrong)


@pytest.mark.parametrize("given", [["--tenant", "acme"], ["--limit", "5"], ["--show-values"], ["--json"]])
def test_an_option_of_the_list_is_refused_before_a_replay_which_would_not_heed_it(given: list[str]) -> None:
    answer = CliRunner().invoke(
        application("dlq"), ["dlq", *given, "replay"], env={"HMX_KAFKA_BOOTSTRAP": "127.0.0.1:1"}
    )
    assert answer.exit_code == 2
    assert f"{given[0]} stands before replay" in " ".join(answer.output.replace("│", " ").split())


@pytest.mark.parametrize("tenant", ["acme", "a; rm -rf ~", "$(id)", "it's `id`"])
def test_a_tenants_name_is_one_word_in_the_command_that_is_suggested(tenant: str) -> None:
    commands = [command for command, _ in home._next(False, {"rejections": []}, {"tenants": [tenant]})]
    assert shlex.split(commands[0])[-2:] == ["--tenant", tenant]
