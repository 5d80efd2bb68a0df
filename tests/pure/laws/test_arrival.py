"""HMX-E §7: within the window the order of arrival does not matter: what is released, and what is learnt, is the same.

Strictly ordered that holds for anything; eagerly for what has no ties in sequence, which go out as they come.
"""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.limits import WINDOW_MS
from hmx_pipeline.topology import EVIDENCE
from tests.support.inprocess import Ran, run, sessions_fold
from tests.support.scripts import MOVES, TASK, Line, records, show

PACE_MS = 700


@st.composite
def sessions(draw: st.DrawFn, *, ties: bool) -> list[Line]:
    """Sessions of named events, sent in the order they are to come out in, at an even pace; sequences with gaps."""
    planned: list[Line] = []
    for name in "ab"[: draw(st.integers(1, 2))]:
        sequence, written = draw(st.sampled_from([0, 0, 3])), []
        for n in range(draw(st.integers(1, 8))):
            tie = ties and draw(st.booleans())
            sequence += 0 if n == 0 or tie else draw(st.sampled_from([1, 1, 1, 3]))
            instant = draw(st.integers(0, 3)) if tie else 0
            move = draw(st.sampled_from([TASK[n % len(TASK)], *MOVES]))
            written.append(Line(0, move, name, sequence, 1_000 * sequence + instant, "xyzuvwpq"[n]))
        planned += [line._replace(at=n * PACE_MS) for n, line in enumerate(sorted(written, key=order))]
    return planned


def order(line: Line) -> tuple[int, int, str]:
    """HMX-E §7: by sequence, then by timestamp; what is left of ties by id."""
    return line.sequence, line.instant, line.event_id


def arrived(planned: list[Line], delays: list[int]) -> list[Line]:
    """Each so much later than it was sent."""
    late = [line._replace(at=line.at + delay) for line, delay in zip(planned, delays, strict=False)]
    return sorted(late, key=lambda line: line.at)


def released(ran: Ran) -> dict[str, list[str]]:
    """By session, in order; late ones marked."""
    found: dict[str, list[str]] = {}
    for episode, released in zip(ran.episodes, ran.released, strict=True):
        found.setdefault(episode["sessionId"], []).append(released)
    return found


def contributed(ran: Ran) -> dict[bytes | None, bytes | None]:
    """What was said last under each key, byte for byte."""
    return {output.key: output.value for output in ran.on(EVIDENCE) if b'"contribution_id"' in (output.value or b"")}


def in_order(planned: list[Line]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in planned:
        found.setdefault(line.session, []).append(line.event_id)
    return found


def check(strict: bool, planned: list[Line], delays: list[int]) -> None:
    end = Line(100_000, "barrier")
    lines = [*arrived(planned, delays), Line(90_000, "tick"), end]
    show("arrived", lines)

    def ran(lines: list[Line]) -> Ran:
        return run(lambda: sessions_fold(strict=strict), records(lines))

    there, as_sent = ran(lines), ran([*arrived(planned, [0] * len(planned)), Line(90_000, "tick"), end])
    assert released(there) == in_order(planned)
    assert contributed(there) == contributed(as_sent)


DELAYS = st.lists(st.integers(0, WINDOW_MS - 1), min_size=16, max_size=16)
"""Less than the window; an event sent later can so arrive earlier."""


@pytest.mark.requirement("E-24", "E-25", "E-26", "E-27", "E-28")
@given(planned=sessions(ties=True), delays=DELAYS)
def test_strictly_any_arrival_within_the_window_comes_out_alike(planned: list[Line], delays: list[int]) -> None:
    check(True, planned, delays)


@pytest.mark.requirement("E-24", "E-26", "E-27", "E-28")
@given(planned=sessions(ties=False), delays=DELAYS)
def test_eagerly_any_arrival_within_the_window_without_ties_comes_out_alike(
    planned: list[Line], delays: list[int]
) -> None:
    check(False, planned, delays)


@pytest.mark.requirement("E-25")
@given(planned=sessions(ties=True), delays=DELAYS, cuts=st.randoms(use_true_random=False))
def test_eagerly_ties_come_out_each_once(planned: list[Line], delays: list[int], cuts: random.Random) -> None:
    lines = [*arrived(planned, delays), Line(90_000, "tick")]
    show("arrived", lines)
    there = released(run(sessions_fold, records(lines), lambda left: cuts.randint(1, left)))
    assert {name: sorted(event.rstrip("!") for event in events) for name, events in there.items()} == {
        name: sorted(events) for name, events in in_order(planned).items()
    }


@pytest.mark.requirement("Y11", "Y24")
@pytest.mark.parametrize("strict", [False, True], ids=["eager", "strict"])
@given(count=st.integers(2, 8), delays=DELAYS, cuts=st.randoms(use_true_random=False))
def test_a_restarted_session_comes_out_alike_in_any_arrival_within_the_window(
    strict: bool, count: int, delays: list[int], cuts: random.Random
) -> None:
    """Its old run, which reached a higher sequence, is out by then."""
    old = [Line(0, TASK[n % len(TASK)], "a", n, n, f"old-{n}") for n in range(count)]
    new = [Line(20_000 + n * PACE_MS, TASK[n % len(TASK)], "a", n, 20_000 + n, f"new-{n}") for n in range(count)]
    lines = [*old, *arrived(new, delays), Line(90_000, "tick")]
    show("arrived", lines)
    ran = run(lambda: sessions_fold(strict=strict), records(lines), lambda left: cuts.randint(1, left), restores=True)
    assert ran.released == [line.event_id for line in (*old, *new)]
    assert [episode["metadata"]["hmx"]["release"]["run"] for episode in ran.episodes] == [0] * count + [1] * count
