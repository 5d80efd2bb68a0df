"""Keys that `hmx keys` makes: of a tenant, or of one person of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hmx_pipeline.cli.keys import group
from hmx_pipeline.service.api_keys import USUAL, Grant, KeyFile


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HMX_API_KEYS", str(tmp_path / "keys"))
    return tmp_path / "keys"


def hmx(*arguments: str) -> Any:
    return CliRunner().invoke(group, list(arguments))


def test_a_key_of_a_person_is_bound_to_it_and_listed_with_it(file: Path) -> None:
    whole, own = (hmx("new", "acme", *more).stdout.split()[-1] for more in ((), ("--subject", "Zoë of acme")))
    held = KeyFile(file)
    assert held.grant(whole) == Grant("acme", USUAL)
    assert held.grant(own) == Grant("acme", USUAL, "Zoë of acme")
    listed = json.loads(hmx("list", "--json").stdout)
    assert [one.get("subject") for one in listed] == [None, "Zoë of acme"]


@pytest.mark.parametrize("subject", ["", " ann", "a\tb", "a" * 513])
def test_a_name_that_the_file_could_not_hold_is_refused(file: Path, subject: str) -> None:
    assert hmx("new", "acme", "--subject", subject).exit_code != 0
    assert not file.exists()


def test_an_operators_key_is_bound_to_nobody(file: Path) -> None:
    assert hmx("new", "acme", "--subject", "ann", "--scope", "admin").exit_code != 0
    assert not file.exists()
