"""What every figure rests on: held-out sessions, intervals, bars; and a report that is the same on every run."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.quality import __main__ as quality
from tests.quality import reading
from tests.quality.figures import Bar, Case, Figure, area, drawn, mean, paired
from tests.quality.report import WIDTH, show
from tests.quality.sessions import MissingError, Sessions, recorded
from tests.support.sessions import session


def test_what_is_known_without_some_sessions_is_the_map_without_their_contributions() -> None:
    sessions = [session(n) for n in range(12)]
    held_out = {f"session-{n}" for n in range(0, 12, 3)}
    of_all = recorded("all", [event for one in sessions for event in one])
    of_others = recorded("others", [e for one in sessions for e in one if e["session_id"] not in held_out])
    assert of_others.contributions == tuple(c for c in of_all.contributions if c.session_id not in held_out)
    assert of_others.contributions


def test_intervals_are_of_the_difference_and_the_same_whatever_order_the_cases_come_in() -> None:
    cases = [Case(f"task {n % 7}", n % 2, n % 3 / 2) for n in range(70)]
    one, other = paired("t", "s", "m", cases), paired("t", "s", "m", cases[::-1])
    assert one == other
    assert one.low is not None
    assert one.high is not None
    assert one.baseline is not None
    assert one.low < one.value - one.baseline < one.high


def test_cases_of_one_cluster_are_no_independent_evidence() -> None:
    alone = mean("t", "s", "m", [Case(str(n), n % 2) for n in range(80)])
    together = mean("t", "s", "m", [Case(str(n // 20), n // 20 % 2) for n in range(80)])
    assert alone.low is not None
    assert together.low is not None
    assert together.low < alone.low


def test_a_statistic_of_drawn_cases_sees_whole_clusters() -> None:
    clusters = [str(n // 2) for n in range(20)]

    def statistic(places: Iterable[int]) -> tuple[float, float]:
        chosen = list(places)
        assert all(chosen.count(place) == chosen.count(place ^ 1) for place in chosen)
        return sum(chosen) / len(chosen), 0.0

    assert drawn("t", "s", "m", clusters, statistic).value == 9.5


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12))
def test_the_area_is_the_share_of_pairs_that_are_told_apart(scores: list[tuple[int, bool]]) -> None:
    pairs = [(good, bad) for good, won in scores if won for bad, lost in scores if not lost]
    wins = sum(1.0 if good > bad else 0.5 if good == bad else 0.0 for good, bad in pairs)
    assert area([(float(score), success) for score, success in scores]) == (wins / len(pairs) if pairs else 0.5)


def test_a_bar_holds_all_that_it_says() -> None:
    better = Figure("t", "s", "m", 0.8, 0.7, 0.02, 0.2)
    assert Bar(least=0.8, over=0.1, proven=True).met(better)
    assert not Bar(least=0.81).met(better)
    assert not Bar(over=0.11).met(better)
    assert not Bar(proven=True).met(Figure("t", "s", "m", 0.8, 0.7, -0.01, 0.2))
    assert not Bar(over=0.0).met(Figure("t", "s", "m", 0.8))
    assert Bar(most=0.05).met(Figure("t", "s", "m", 0.05))


def test_the_report_is_the_same_on_every_run_and_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def task(_: Sessions) -> list[Figure]:
        return [paired("t", "s", "m", [Case(str(n), n % 2, 0) for n in range(20)], Bar(least=0.6), note="said so")]

    monkeypatch.setattr(quality, "TASKS", {"planted": task})
    written = []
    for name in ("one", "two"):
        quality.main(["--out", str(tmp_path / name)])
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]
    (figure,) = json.loads(written[0])
    assert list(figure) == ["task", "set", "metric", "value", "baseline", "low", "high", "bar", "met"]
    assert (figure["bar"], figure["met"]) == ("≥ 0.6", False)
    shown = capsys.readouterr().out.splitlines()
    assert all(len(row) <= WIDTH for row in shown)
    assert "not met: t s m" in shown


def test_every_figure_takes_one_line_of_a_group() -> None:
    console = Console(width=WIDTH, record=True, file=StringIO())
    bar = Bar(least=0.32, proven=True)
    of = [("a task", "one set"), ("a task", "one set"), ("a task", "another set")]
    show([Figure(*names, "m" * 36, 0.5, 0.25, -0.125, 0.125, bar) for names in of], console)
    table = console.export_text().split("\n\n")[0].splitlines()
    assert [row.strip() for row in table if "0.5" not in row][1:] == ["a task: one set", "a task: another set"]
    rows = [row for row in table if "m" * 36 in row]
    assert len(rows) == 3
    assert all(str(bar) in row and row.rstrip().endswith("yes") is False for row in rows)


def test_the_stricter_reader_counts_what_one_has_not_read_is_no_good_and_numbers_do_not_matter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def said(text: str) -> tuple[str, reading.Read]:
        return "facts", reading.Read(reading._hash("a set", text), "a set", text, ("e",))

    texts = ("Ada has 3 cats", "Ada has 4 cats", "Ada has a dog", "Ada has a car", "Ada has a hat")
    found = [said(text) for text in texts]
    cats, dog, car = (found[place][1].name for place in (0, 2, 3))
    assert len(reading.sample(found, "facts", 9)) == 4
    good, little = reading.Verdict(reading.USEFUL, "pets"), reading.Verdict(reading.LITTLE, "things")
    first, second = {cats: good, dog: good, car: good}, {cats: good, dog: little}
    monkeypatch.setattr(reading, "READERS", (first, second))
    monkeypatch.setattr(reading, "verdicts", lambda of: of)
    monkeypatch.setattr(reading, "SIZES", {"facts": 9})
    monkeypatch.setattr(reading, "_found", lambda _: found)
    useful, true, agree = reading.task(Sessions())
    assert (useful.value, true.value, useful.met, agree.value) == (0.25, 0.5, False, 0.5)
    assert agree.note == "useful to each reader: 1.00, 0.50; kappa 0.00"
    first.clear()
    second.clear()
    with pytest.raises(MissingError, match="have been read"):
        list(reading.task(Sessions()))


@pytest.mark.parametrize(
    ("both", "one", "other", "neither", "kappa"),
    [(20, 5, 10, 15, 0.4), (3, 0, 0, 0, 1.0), (2, 0, 0, 2, 1.0), (0, 2, 2, 0, -1.0)],
)
def test_kappa_is_agreement_beyond_chance(both: int, one: int, other: int, neither: int, kappa: float) -> None:
    said = [(True, True)] * both + [(True, False)] * one + [(False, True)] * other + [(False, False)] * neither
    assert reading.kappa(said) == pytest.approx(kappa)


def test_missing_data_is_said_plainly(tmp_path: Path) -> None:
    """Of the tasks that need it; the others plant what they ask for."""
    wanted = ("procedures", "served", "recall", "corrections")
    told = subprocess.run(
        [sys.executable, "-m", "tests.quality", *wanted, "--data", str(tmp_path), "--out", str(tmp_path / "q.json")],
        capture_output=True,
        text=True,
        check=True,
    )
    said = " ".join(told.stderr.split())
    assert [said.count(f"{name} is left out: ") for name in wanted] == [1] * len(wanted)
    assert "set HMX_DATA to the folder of the open data" in said
    assert "Traceback" not in said


_SAYS = """
from hmx_pipeline.advice.action_traces import courses
from hmx_pipeline.advice.next_command import CommandCounts, next_command
from tests.quality.sessions import recorded
from tests.support.sessions import session

made = recorded("made", [event for number in range(30) for event in session(number)])
told = courses(made.of_kind("course"))
for asked in told[:5]:
    print(next_command(CommandCounts(told[5:]), asked))
"""


def test_advice_is_the_same_whatever_the_hash_seed() -> None:
    told = [
        subprocess.run(
            [sys.executable, "-c", _SAYS], capture_output=True, check=True, env=os.environ | {"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1] != b""
