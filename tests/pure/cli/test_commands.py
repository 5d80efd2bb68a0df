"""The command line imports only what the command asked for needs, and offers the same commands either way."""

import os
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from hmx_pipeline.cli.app import MODULES, application

READS = {"validate", "watch", "explain", "dlq", "verify", "schemas", "topics", "table"}
"""These read Kafka or the compiler's tables themselves, whatever they are asked."""
MODELS = {*READS, "artifacts", "pack", "archive", "knowledge", "erase", "demo", "fingerprint", "retention"}
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
