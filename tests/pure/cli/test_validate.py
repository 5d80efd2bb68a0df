"""`hmx validate` says of every line what the sessions stage would make of it, and why."""

import difflib
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from hmx_pipeline.audit.validation import Validation, Validator, lacking
from hmx_pipeline.cli.app import application
from hmx_pipeline.contracts.keys import CONTROL_TENANT
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.contracts.rejections import Reason
from tests.support.events import encoded, event
from tests.support.inprocess import run, sessions_fold
from tests.support.records import log

MIXED = [
    encoded(event()),
    b"",
    encoded(event()),
    b"no JSON",
    encoded(event(content={"other": 1})),
    encoded(event(event_id="e-2", sequence=3, timestamp="2026-03-14T03:00:00")),
    encoded(event(event_id="e-3", sequence=4)),
    encoded(event(event_id="e-4", sequence=1, tenant_id=CONTROL_TENANT)),
    encoded(event(event_id="e-5", sequence=5, event_type="tool_call", content={"tool_name": 7})),
]


def validated(lines: list[bytes]) -> Validation:
    validator = Validator()
    for number, line in enumerate(lines, 1):
        validator.line(number, line)
    return validator.result()


def hmx(*arguments: Any, **options: Any) -> Result:
    return CliRunner(env={"COLUMNS": "80"}).invoke(application(), ["validate", *map(str, arguments)], **options)


@pytest.mark.requirement("Y07")
def test_minted_sequences_have_no_gaps() -> None:
    minted = {"metadata": {"x-hmx-sequence": "arrival"}}
    sent = [event(event_id=f"m{n}", sequence=n, session_id="minted", **minted) for n in (2**50, 2**51)]
    found = validated([encoded(one) for one in [*sent, event(sequence=0), event(event_id="e-2", sequence=1)]])
    assert (found.gaps, found.sessions) == ([], 2)


@pytest.mark.requirement("E-01")
def test_a_bad_line_among_good_ones_is_named_with_its_reason_and_path() -> None:
    found = validated(MIXED)
    assert {reason: [finding[:2] for finding in findings.first] for reason, findings in found.rejected.items()} == {
        Reason.NOT_JSON: [(4, "$")],
        Reason.EVENT_ID_REUSED: [(5, "$.event_id")],
        Reason.BAD_TIMESTAMP: [(6, "$.timestamp")],
        Reason.RESERVED: [(8, "$.tenant_id")],
    }
    assert [finding.line for finding in found.duplicates.first] == [3]
    assert (found.lines, found.rejections, found.accepted) == (8, 4, 3)


def test_a_title_stands_on_one_line_above_a_table_that_is_narrower(tmp_path: Path) -> None:
    (tmp_path / "gap.ndjson").write_bytes(encoded(event(sequence=2)))
    assert "Sessions with gaps in their sequence" in hmx(tmp_path / "gap.ndjson").output


@pytest.mark.requirement("E-21")
def test_content_that_has_not_its_type_s_shape_is_a_warning_and_no_rejection() -> None:
    found = validated(MIXED[-1:])
    assert found.rejected == {}
    assert [finding.line for findings in found.notes.values() for finding in findings.first] != []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("session.ended", []),
        ("command.completed", []),
        ("x-acme-note", []),
        ("memory.compacted", []),
        ("tool.reslt", ["unknown event_type tool.reslt: did you mean tool_result?"]),
        ("sesion.ended", ["unknown event_type sesion.ended: did you mean session.ended?"]),
        ("skill.validted", ["unknown event_type skill.validted: did you mean skill.validated?"]),
        ("weather", ["unknown event_type weather: types of your own have the form x-{vendor}-{type}"]),
    ],
)
def test_a_misspelt_type_is_named_with_the_one_that_is_meant(name: str, said: list[str]) -> None:
    assert [*validated([encoded(event(event_type=name))]).notes] == said


def test_an_unknown_type_is_compared_once_however_many_lines_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    compared, real = [], difflib.get_close_matches

    def compare(name: str, *rest: Any) -> list[str]:
        compared.append(name)
        return real(name, *rest)

    monkeypatch.setattr(difflib, "get_close_matches", compare)
    names = ["sesion.begun", "wether", *["sesion.begun"] * 3]
    found = validated([encoded(event(event_id=f"e-{n}", event_type=name, sequence=n)) for n, name in enumerate(names)])
    assert sum(findings.count for findings in found.notes.values()) == len(names)
    assert compared == names[:2]


def test_what_would_be_rejected_is_what_the_stage_rejects() -> None:
    lines = [line for line in MIXED if line]
    ran = run(sessions_fold, log([(n, line) for n, line in enumerate(lines)]))
    found = validated(lines)
    assert ran.counts[Outcome.REJECTED] == found.rejections
    assert ran.counts[Outcome.DUPLICATE] == found.duplicates.count
    for reason, findings in found.rejected.items():
        assert ran.counts[f"{Outcome.REJECTED}.{reason}"] == findings.count


@given(st.sets(st.integers(0, 60)))
def test_missing_sequences_are_counted_and_the_first_is_named(present: set[int]) -> None:
    absent = [n for n in range(max(present, default=0)) if n not in present]
    assert lacking(present) == (len(absent), absent[0] if absent else 0)


def test_a_session_s_gap_is_named() -> None:
    found = validated(MIXED)
    assert [gap._asdict() for gap in found.gaps] == [
        {"tenant_id": "tenant", "session_id": "session", "missing": 3, "first": 1}
    ]


def test_files_packed_ones_and_standard_input_are_read(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.ndjson", tmp_path / "b.ndjson.gz"
    plain.write_bytes(encoded(event()) + b"\n")
    packed.write_bytes(gzip.compress(encoded(event(event_id="e-2", sequence=1))))
    done = hmx("--json", plain, packed, "-", input=b"no JSON\n")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert (found["lines"], found["accepted"], found["rejected"]) == (3, 2, 1)
    assert found["reasons"][0]["first"] == [{"line": 3, "path": "$", "detail": "character 0"}]
    assert "is not a file" in hmx(tmp_path / "none").stderr


def test_valid_lines_end_with_zero_and_tables_fit_the_terminal() -> None:
    good = hmx("-", input=b"\n".join(MIXED[:3]))
    assert good.exit_code == 0, good.output
    assert "valid" in good.stdout
    bad = hmx("-", input=b"\n".join(MIXED))
    assert bad.exit_code == 1
    assert max(map(len, bad.stdout.splitlines())) <= 80
    for reason in (Reason.NOT_JSON, Reason.EVENT_ID_REUSED, Reason.BAD_TIMESTAMP, Reason.RESERVED):
        assert reason in bad.stdout


def test_a_broken_archive_is_said(tmp_path: Path) -> None:
    file = tmp_path / "a.ndjson.gz"
    file.write_bytes(gzip.compress(encoded(event()))[:-4])
    done = hmx(file)
    assert done.exit_code == 1
    assert "can't be read" in done.stderr


def test_what_a_producer_wrote_does_not_move_the_cursor() -> None:
    line = encoded(event(session_id="\x1b[2J", sequence=7) | {"\x1b]0;x\x07": 1})
    assert "\x1b" not in hmx("-", input=line).stdout
    assert "\x1b" not in hmx("-", input=encoded(event(session_id="\x1b[2J", sequence=7))).stdout
