"""Keys and what they open, limits, and the commands that make, list and revoke keys."""

import hashlib
import re
import threading
from pathlib import Path
from typing import Any

import orjson
import pytest
from starlette.requests import HTTPConnection
from typer.testing import CliRunner

from hmx_pipeline.cli.app import application
from hmx_pipeline.service.access import Access, admit
from hmx_pipeline.service.api_keys import NAME, USUAL, Grant, KeyFile, Scope, add, digest, parse, revoke
from hmx_pipeline.service.hippocortex.answer_envelope import LIMITS
from hmx_pipeline.service.problems import ProblemError, ProblemKind

NATIVE, DIALECT = "/v1/hmx/artifacts", "/v1/artifacts"
EVERYTHING = frozenset(Scope)


class Service:
    def __init__(self, access: Access) -> None:
        self.state = self
        self.access = access


def asking(access: Access, path: str = NATIVE, **headers: str) -> HTTPConnection:
    raw = [(name.replace("_", "-").lower().encode(), value.encode()) for name, value in headers.items()]
    return HTTPConnection({"type": "http", "path": path, "headers": raw, "app": Service(access)})


def with_key(access: Access, key: str, path: str = NATIVE, **headers: str) -> HTTPConnection:
    return asking(access, path, Authorization=f"Bearer {key}", **headers)


def refused(connection: HTTPConnection, scope: Scope = Scope.READ) -> ProblemKind:
    with pytest.raises(ProblemError) as raised:
        admit(connection, scope)
    return raised.value.kind


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def test_without_a_file_anybody_is_whoever_they_say() -> None:
    access = Access("", 0)
    for path in (NATIVE, DIALECT):
        assert admit(with_key(access, "hx_test_acme", path), Scope.ADMIN) == "acme"
        assert admit(asking(access, path, authorization="bearer  hx_test_acme"), Scope.READ) == "acme"
        for bad in ("Bearer", "Bearer hx_test_", "Bearer hx_live_acme", "Bearer hx_test__hmx"):
            assert refused(asking(access, path, authorization=bad)) in (
                ProblemKind.UNAUTHORIZED,
                ProblemKind.TENANT_REQUIRED,
            )
    assert refused(with_key(access, "hx_live_acme")) is ProblemKind.UNAUTHORIZED
    assert admit(asking(access, x_hmx_tenant="acme"), Scope.WRITE) == "acme"
    assert refused(asking(access, NATIVE)) is ProblemKind.TENANT_REQUIRED
    assert refused(asking(access, DIALECT)) is ProblemKind.UNAUTHORIZED
    assert refused(asking(access, x_hmx_tenant="_hmx")) is ProblemKind.TENANT_RESERVED
    assert admit(with_key(access, "hx_test_acme", x_hmx_tenant="acme"), Scope.READ) == "acme"
    assert refused(with_key(access, "hx_test_globex", x_hmx_tenant="acme")) is ProblemKind.FORBIDDEN


@pytest.mark.requirement("K-07")
def test_with_a_file_a_key_says_whose_it_is_and_a_header_may_only_say_the_same(file: Path) -> None:
    key = add(file, Grant("acme inc", USUAL))
    access = Access(str(file), 0)
    for path in (NATIVE, DIALECT):
        assert admit(with_key(access, key, path), Scope.READ) == "acme inc"
        assert admit(with_key(access, key, path, x_hmx_tenant="acme inc"), Scope.WRITE) == "acme inc"
        assert refused(with_key(access, key, path, x_hmx_tenant="globex")) is ProblemKind.FORBIDDEN
        assert refused(with_key(access, "hx_test_acme", path)) is ProblemKind.UNAUTHORIZED
        assert refused(with_key(access, "", path)) is ProblemKind.UNAUTHORIZED
        assert refused(asking(access, path, x_hmx_tenant="acme inc")) is ProblemKind.UNAUTHORIZED


@pytest.mark.parametrize("scope", Scope)
def test_a_key_opens_what_its_scopes_say_and_no_more(file: Path, scope: Scope) -> None:
    key = add(file, Grant("acme", frozenset({scope})))
    access = Access(str(file), 0)
    assert admit(with_key(access, key), scope) == "acme"
    for other in EVERYTHING - {scope}:
        assert refused(with_key(access, key), other) is ProblemKind.FORBIDDEN


def test_a_file_of_keys_holds_no_key_and_a_key_taken_out_is_of_no_use(file: Path) -> None:
    keys = [add(file, Grant(tenant, USUAL)) for tenant in ("acme", "globex")]
    assert all(re.fullmatch(r"hx_live_[\w-]{32}", key) and key not in file.read_text() for key in keys)
    held = KeyFile(file)
    assert [held.grant(key) for key in keys] == [Grant("acme", USUAL), Grant("globex", USUAL)]
    revoke(file, digest(keys[0])[:NAME])
    assert [held.grant(key) for key in keys] == [None, Grant("globex", USUAL)]
    revoke(file, keys[1])
    assert held.grant(keys[1]) is None
    file.unlink()
    assert held.grant(keys[1]) is None


def test_a_line_written_by_hand_is_understood_or_opens_nothing(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = ["# acme's own", "", f"{digest('a')} acme inc", f"{digest('b')} acme\tadmin,read", f"{digest('c')} x\troot"]
    file.write_text("\n".join([*lines, digest("d"), f"{digest('e')} \tread"]))
    held = KeyFile(file)
    assert held.grant("a") == Grant("acme inc", USUAL)
    assert held.grant("b") == Grant("acme", frozenset({Scope.ADMIN, Scope.READ}))
    assert [held.grant(key) for key in "cde"] == [None] * 3
    assert "lines of the key file are invalid" in caplog.text
    add(file, Grant("globex", USUAL))
    assert file.read_text().splitlines()[:5] == lines, "what others wrote stays as it is"


def test_two_who_change_the_file_at_once_both_have_their_say_and_no_reader_sees_half(file: Path) -> None:
    made: list[str] = []
    kept = add(file, Grant("kept", USUAL))
    held, seen = KeyFile(file), []

    def adding() -> None:
        made.extend(add(file, Grant(f"t{n}", USUAL)) for n in range(25))

    threads = [threading.Thread(target=adding) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        seen.append(held.grant(kept))
    for thread in threads:
        thread.join()
    assert all(held.grant(key) for key in made)
    assert len(made) == 100
    assert all(seen)
    assert [one.name for one in file.parent.iterdir()] == [file.name]


def test_the_file_keeps_its_mode_and_a_link_goes_on_being_one(file: Path, tmp_path: Path) -> None:
    add(file, Grant("acme", USUAL))
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(file)
    key = add(link, Grant("globex", USUAL))
    assert (link.is_symlink(), file.stat().st_mode & 0o777) == (True, 0o640)
    assert KeyFile(file).grant(key)


def test_which_keys_are_to_go_must_be_clear(file: Path) -> None:
    file.write_text(f"abcdef01{'0' * 56} acme\nabcdef02{'0' * 56} globex\n")
    for which in ("abcdef", "fedcba01", "hx_live_nobody's"):
        with pytest.raises(LookupError):
            revoke(file, which)
    assert len(list(parse(file.read_text().splitlines()))) == 2
    revoke(file, "abcdef02")
    assert [grant.tenant for _, grant in parse(file.read_text().splitlines()) if grant] == ["acme"]


def test_beyond_its_limit_a_tenant_is_told_when_to_come_back() -> None:
    now = [1_800_000_000.0]
    access = Access("", 2, lambda: now[0])
    for left in ("1", "0"):
        connection = asking(access, x_hmx_tenant="acme")
        admit(connection, Scope.READ)
        assert connection.scope[LIMITS]["X-RateLimit-Remaining"] == left
    connection = asking(access, x_hmx_tenant="acme")
    assert refused(connection) is ProblemKind.RATE_LIMITED
    headers: dict[str, str] = connection.scope[LIMITS]
    assert headers.keys() == {"Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}
    admit(asking(access, x_hmx_tenant="globex"), Scope.READ)
    now[0] += float(headers["Retry-After"])
    admit(asking(access, x_hmx_tenant="acme"), Scope.READ)
    assert Access("", 0).limits("acme") == ({}, True)


def hmx(file: Path | None, *words: str) -> Any:
    return CliRunner(env={"HMX_API_KEYS": str(file or "")}).invoke(application(), ["keys", *words])


def test_hmx_keys_prints_a_key_once_lists_what_it_may_and_revokes_it(file: Path) -> None:
    usual = hmx(file, "new", "acme inc").stdout.strip()
    admin = hmx(file, "new", "globex", "--scope", "admin", "--scope", "read").stdout.strip()
    assert all(key not in file.read_text() for key in (usual, admin))
    assert file.stat().st_mode & 0o077 == 0
    listed = orjson.loads(hmx(file, "list", "--json").stdout)
    assert [one["id"] for one in listed] == [hashlib.sha256(key.encode()).hexdigest()[:NAME] for key in (usual, admin)]
    assert [(one["tenant"], one["scopes"]) for one in listed] == [
        ("acme inc", ["read", "write"]), ("globex", ["admin", "read"]),
    ]  # fmt: skip
    assert "acme inc" in hmx(file, "list").stdout
    assert (hmx(file, "revoke", listed[0]["id"]).exit_code, hmx(file, "revoke", listed[0]["id"]).exit_code) == (0, 1)
    held = KeyFile(file)
    assert [held.grant(key) is not None for key in (usual, admin)] == [False, True]


def test_hmx_keys_says_what_is_wrong(file: Path) -> None:
    add(file, Grant("acme", USUAL))
    wrong = [("new", "two\nlines"), ("new", " "), ("revoke", "ab"), ("revoke", "0" * 12)]
    assert [hmx(file, *words).exit_code for words in wrong] == [1] * len(wrong)
    for words in (("new", "acme"), ("list",), ("revoke", "0" * 12)):
        assert hmx(None, *words).exit_code == 1
        assert hmx(file.parent / "no" / "keys", *words).exit_code == 1
    assert len(list(parse(file.read_text().splitlines()))) == 1
    assert [one.name for one in file.parent.iterdir()] == [file.name]
