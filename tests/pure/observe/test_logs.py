"""Log lines: JSON or text, with the place where it is known, and never what an exception quotes."""

import json
import logging
import sys
from typing import Any

import pytest

from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.observe.logs import JsonLines, Text, at, configure_logs, said
from hmx_pipeline.runtime.transaction import AbortedError
from tests.support.hostile import ALL

CANARY = "canary-4711"


def record(message: str = "it happened", error: BaseException | None = None, **place: Any) -> logging.LogRecord:
    made = logging.LogRecord("hmx.test", logging.WARNING, __file__, 1, message, (), (type(error), error, None))  # type: ignore[arg-type]
    made.__dict__.update(at(**place))
    return made


def raised(make: Any) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        make()
    return caught.value


def test_a_line_of_json_has_the_fields_that_are_known() -> None:
    line = json.loads(JsonLines().format(record(topic="hmx.events.v1", partition=3, offset=7, tenant="a", session="b")))
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "WARNING", "logger": "hmx.test", "message": "it happened",
        "topic": "hmx.events.v1", "partition": 3, "offset": 7, "tenant": "a", "session": "b",
    }  # fmt: skip


def test_a_line_for_people_begins_with_the_place() -> None:
    shown = Text().format(record(topic="hmx.events.v1", partition=3, offset=7, tenant="a", session="b"))
    assert shown.endswith("hmx.test  hmx.events.v1/3@7 a/b: it happened")
    assert Text().format(record()).endswith("hmx.test  it happened")


@pytest.mark.parametrize("form", [JsonLines(), Text()])
def test_an_exception_that_may_quote_a_record_is_logged_by_its_type_and_lines(form: logging.Formatter) -> None:
    def invalid() -> None:
        try:
            Contribution.model_validate({"tenant_id": [CANARY]})
        except ValueError as error:
            raise KeyError(str(error)) from error

    error = raised(invalid)
    assert CANARY in str(error), "or the test tests nothing"
    line = form.format(record(error=error))
    assert CANARY not in line
    assert "ValidationError" in line
    assert "KeyError" in line
    assert "test_logs.py" in line


def test_what_our_own_exceptions_say_is_said() -> None:
    assert said(AbortedError("the broker said no")) == "the broker said no"
    assert said(ConnectionRefusedError(111, "refused")) == "[Errno 111] refused"
    assert said(ValueError(CANARY)) == "ValueError"


@pytest.mark.parametrize(
    ("form", "terminal", "as_json"),
    [("auto", True, False), ("auto", False, True), ("text", False, False), ("json", True, True)],
)
def test_json_goes_where_no_terminal_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str, terminal: bool, as_json: bool
) -> None:
    root = logging.getLogger()
    before, hook = (root.handlers[:], root.level), sys.excepthook
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    try:
        configure_logs("info", form)
        logging.getLogger("hmx.test").info("hello", extra=at("t", 0))
        sys.excepthook(ValueError, ValueError(CANARY), None)
    finally:
        root.handlers[:], sys.excepthook = before[0], hook
        root.setLevel(before[1])
    written = capsys.readouterr().err
    assert written.startswith("{") is as_json
    assert "hello" in written
    assert "the process ends because of an error" in written
    assert CANARY not in written


@pytest.mark.parametrize("text", ALL)
def test_names_that_tenants_chose_begin_no_line_and_send_no_escapes(text: str) -> None:
    made = record(f"lost {text}", OSError(text), topic="hmx.events.v1", tenant=text, session=text)
    lines = Text().format(made).split("\n")
    assert [line[:4] for line in lines[1:]] == ["    "]
    assert all(line.isprintable() for line in lines)
    written = JsonLines().format(made)
    assert written.isprintable()
    assert (json.loads(written)["tenant"], json.loads(written)["message"]) == (text, f"lost {text}")
