"""The command line imports only what the command asked for needs, and offers the same commands either way."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from threading import Thread
from typing import Annotated, Any

import pytest
import typer
from typer._coercion import build_runtime_param
from typer.testing import CliRunner

from hmx_pipeline.cli.app import MODULES, VERSION, application
from hmx_pipeline.cli.typed_values import without_models
from hmx_pipeline.packs.assemble import assemble
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import plan
from tests.support.memory import artifact, episode, fetched

READS = {"validate", "watch", "explain", "dlq", "verify", "schemas", "topics", "table"}
"""These read Kafka or the compiler's tables themselves, whatever they are asked."""
MODELS = {*READS, "erase", "demo", "fingerprint"}
"""The choices of their options stand in models."""
HEAVY = ("numpy", "redis", "faust", "fastapi", "prometheus_client", "rich.markdown")
_ROOMS = ("compiler", "kafka", "runtime", "stages", "retrieval")
KAFKA = ("confluent_kafka", "yaml", *(f"hmx_pipeline.{room}" for room in _ROOMS))
COMMANDS = [name for names in MODULES.values() for name in names]
WHOLE = typer.main.get_command(application())


def test_the_table_names_every_command_and_no_other() -> None:
    assert sorted(name for names in MODULES.values() for name in names) == sorted(WHOLE.commands)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_imported_alone_is_the_same(name: str) -> None:
    help_text = [CliRunner().invoke(app, [name, "--help"]).output for app in (application(), application(name))]
    assert help_text[0] == help_text[1] != ""


def test_help_and_what_a_shell_completes_are_the_same_without_any_command_imported() -> None:
    help_text = [CliRunner().invoke(app, ["--help"]).output for app in (application(), application(""))]
    assert help_text[0] == help_text[1] != ""
    assert completed("hmx pa", 1) == ["pack"]
    assert completed("hmx keys ", 2) == ["new", "list", "revoke"]
    assert completed("hmx pack --fr", 2) == ["--from-session", "--from-agent"]


def completed(line: str, word: int) -> list[str]:
    asked = {"_HMX_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(word)}
    code = "import sys; from hmx_pipeline.cli.app import main; sys.argv = ['hmx']; main()"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | asked
    ).stdout.split()


@pytest.fixture(scope="module")
def loaded() -> dict[str, list[str]]:
    """What a process that was asked for a command has imported, by the command; each is forked from one."""
    code = (
        "import os, sys; from hmx_pipeline.cli.app import application\n"
        "for name in sys.argv[1:]:\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        application(name); print(repr(name), *sys.modules, flush=True); os._exit(0)\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
    )
    asked = [sys.executable, "-c", code, "", *COMMANDS]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    return {words[0].strip("'"): words[1:] for words in map(str.split, told.splitlines())}


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_a_command_starts_without_what_only_others_need(name: str, loaded: dict[str, list[str]]) -> None:
    without = (
        *HEAVY,
        *(KAFKA if name not in READS else ()),
        *(("pydantic", "importlib.metadata") if name not in MODELS else ()),
    )
    assert "hmx_pipeline.cli.app" in loaded[name]
    assert [module for module in without if module in loaded[name]] == []


def test_hmx_alone_starts_without_kafka_and_redis() -> None:
    code = "import sys; import hmx_pipeline.cli.home; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [module for module in (*HEAVY, *KAFKA, "pydantic", "http.client") if module in loaded] == []


def test_the_version_is_that_of_the_package() -> None:
    assert metadata.version("hmx-pipeline") == VERSION


def answers() -> dict[str, Any]:
    """What a service says, by path."""
    request = PackRequest(query="deploy it", tenant_id="acme", explain=True)
    pack = assemble(request, plan(request), fetched([episode(f"e{n}", "deploy it", index=n) for n in range(2)]))
    known = {"kind": "memory", "status": "active", "confidence": 1.0, "text": "It is in Oslo.", "record_id": "k-1"}
    partition = {
        "partition": 0, "position": 5, "lag": 0, "lag_seconds": 0.0, "waiting": 0, "state": 1, "owner": "worker-1",
        "set_aside": False,
    }  # fmt: skip
    return {
        "tenants": {"tenants": ["acme"]},
        "artifacts": {"artifacts": [json.loads(artifact("a-1", "Deploy").to_json())]},
        "artifacts/a-1": json.loads(artifact("a-1", "Deploy").to_json()),
        "knowledge": {"records": [known]},
        "context-packs": json.loads(pack.to_json()),
        "overview": {
            "stages": {"sessions": {"lag": 0, "counts": {"released": 5}, "partitions": [partition]}},
            "memory": {"hmx.episodes.v1/0": {"position": 5, "lag": 0, "lag_seconds": 0.0}},
            "problems": [],
        },
    }


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    """The address of a service that has these answers."""
    told = answers()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(told[self.path.removeprefix("/v1/hmx/").partition("?")[0]]).encode()
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("", "acme"),
        ("--version", VERSION),
        ("artifacts", "Deploy"),
        ("artifacts a-1 --tenant acme --json", "a-1"),
        ("knowledge list --kind memory --limit 5", "Oslo"),
        ("pack deploy --budget 400 --section episodes --explain", "deploy it"),
        ("pack deploy --strategy ranked --json", "deploy it"),
        ("status", "worker-1"),
    ],
)
def test_a_command_that_asks_a_service_loads_nothing_else(words: str, shown: str, service: str, tmp_path: Path) -> None:
    """Imports are what a command takes long for: this holds its start, where a time would depend on the machine."""
    code = (
        "import atexit, sys; from hmx_pipeline.cli.app import main\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); sys.argv[0] = 'hmx'; main()"
    )
    given = {name: value for name, value in os.environ.items() if not name.startswith("HMX_")}
    given |= {"HMX_SERVICE_URL": service, "HMX_STATE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code, *words.split()], capture_output=True, text=True, env=given)
    assert (done.returncode, shown in done.stdout) == (0, True), done.stdout + done.stderr
    modules = done.stderr.splitlines()[-1].split()
    without = (
        *HEAVY,
        *KAFKA,
        "pydantic",
        "importlib.metadata",
        "httpx",
        "hmx_pipeline.store",
        "hmx_pipeline.local.stack",
    )
    assert [module for module in without if module in modules] == []


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    "words",
    [
        "a 5 --colour red --colour red --ratio 0.5 --file x", "a 5", "a 0", "a 11", "a x", "a 1_0", "a 5.0", "a",
        "a -- -3", "a 5 --colour blue", "a 5 --colour", "a 5 --ratio x", "a 5 --ratio nan", "a 5 --file -",
        "a 5 --colour Red",
    ],
)  # fmt: skip
def test_what_is_typed_is_taken_or_refused_as_typer_does(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> tuple[int, str]:
        app = typer.Typer()

        @app.command()
        def command(
            name: str,
            count: Annotated[int, typer.Argument(min=1, max=10)],
            colour: Annotated[list[Colour] | None, typer.Option()] = None,
            ratio: Annotated[float, typer.Option(min=0.1)] = 1.0,
            file: Annotated[Path | None, typer.Option()] = None,
        ) -> None:
            typer.echo(repr((name, count, colour, ratio, file)))

        done = CliRunner().invoke(app, words.split())
        return done.exit_code, done.output

    monkeypatch.setattr("typer.core.build_runtime_param", build_runtime_param)
    by_typer = told()
    without_models()
    assert told() == by_typer
