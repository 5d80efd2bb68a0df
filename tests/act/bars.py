"""What the figures of a run are held to. Enters: results as `run.py play` writes them. Leaves: bars. Nothing fails."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

PACKS, REPLAY, GOOD_STEPS = "packs", "replay", "replay, good steps"
_TWIN: Final = "twin"
_CLEAN, _OVER, _TWINS, _KIND, _RATIO, _TOKENS = 0.75, 0.15, 0.9, 0.6, 1.3, 500

Agents = Mapping[str, Mapping[str, Any]]
"""Figures of every agent in one world."""


class Bar(NamedTuple):
    what: str
    found: str
    """The figure that comes nearest to missing it, or misses it most."""
    met: bool
    missed_in: int
    """So many worlds, where it is asked of each."""


def bars(results: Mapping[str, Any]) -> Iterator[Bar]:
    worlds: dict[str, Agents] = {name: result["agents"] for name, result in results.items()}
    yield _each(worlds, f"clean ≥ {_CLEAN:g} in every world", lambda own: _figure(own, "clean") - _CLEAN, "clean")
    yield _each(
        worlds,
        f"clean ≥ {GOOD_STEPS!r} + {_OVER:g} in every world",
        lambda own: _figure(own, "clean") - own[GOOD_STEPS]["clean"] - _OVER,
        "clean",
        GOOD_STEPS,
    )
    yield from _kinds(results)
    yield _each(
        worlds,
        f"harm below {REPLAY!r} in every world",
        lambda own: own[REPLAY]["harm"] - _figure(own, "harm") - 1,
        "harm",
        REPLAY,
    )
    yield _each(worlds, f"ratio ≤ {_RATIO:g} in every world", lambda own: _RATIO - _figure(own, "ratio"), "ratio")
    yield _each(worlds, f"tokens ≤ {_TOKENS} in every world", lambda own: _TOKENS - _figure(own, "tokens"), "tokens")


def kind_means(results: Mapping[str, Any], agent: str = PACKS) -> dict[str, float]:
    """Clean tasks of each kind, every world alike; in the order in which a world has them."""
    worlds = [result["agents"][agent]["by_kind"] for result in results.values()]
    kinds = dict.fromkeys(run["kind"] for result in results.values() for run in result["runs"])
    return {kind: sum(own[kind] for own in worlds) / len(worlds) for kind in kinds}


def _kinds(results: Mapping[str, Any]) -> Iterator[Bar]:
    for kind, mean in kind_means(results).items():
        least = _TWINS if kind == _TWIN else _KIND
        yield Bar(f"{kind} ≥ {least:g}, mean of the worlds", f"{mean:.3f}", round(mean - least, 6) >= 0, 0)


def _each(
    worlds: Mapping[str, Agents], what: str, room: Callable[[Agents], float], figure: str, beside: str = ""
) -> Bar:
    """`room`: what is left to the bar; below 0 it is missed."""
    rooms = {name: round(room(own), 6) for name, own in worlds.items()}
    worst = min(rooms, key=lambda name: rooms[name])
    found = f"{_said(worlds[worst][PACKS][figure])}"
    if beside:
        found += f" beside {_said(worlds[worst][beside][figure])}"
    missed = sum(left < 0 for left in rooms.values())
    return Bar(what, f"{found} in {worst}", not missed, missed)


def _figure(own: Agents, name: str) -> float:
    """Of packs; a ratio that no clean task gives misses every bar."""
    value = own[PACKS][name]
    return float("inf") if value is None else float(value)


def _said(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
