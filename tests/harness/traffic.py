"""Endless traffic as many agents make it: real sessions where the data is there, generated ones always.

Enters: a seed and how many events a second are wanted just now. Leaves: `Sent` records in the order of their sending.
Each real session comes once per round, every round under tenants of its own, with what may happen to its events on
their way: gaps, disorder, ties, repetitions, late and invalid ones.
"""

import gzip
import heapq
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from tests.support.data import FOLDER
from tests.support.traffic import Sent, journey, synthetic

FILES = ("tau", "swe", "claude_code")
STEP_MS = 20
LONGEST_MS = 8_000
REAL_SHARE = 0.3
"""Of the sessions; they are longer than the generated ones, so more of the events."""

Session = list[dict[str, Any]]


def real_sessions() -> list[Session]:
    """Every session of the open data, in its order; none where the data is missing."""
    sessions: dict[tuple[str, str], Session] = {}
    for name in FILES:
        file = FOLDER / f"{name}.ndjson.gz"
        if file.exists():
            with gzip.open(file, "rb") as lines:
                for event in map(orjson.loads, lines):
                    sessions.setdefault((event["tenant_id"], event["session_id"]), []).append(event)
    return list(sessions.values())


def stream(seed: int, per_second: Callable[[], float]) -> Iterator[Sent]:
    """Sessions begin as often as it takes to come to that many events a second."""
    begun = itertools.count()
    real = _rounds(seed, real_sessions())
    pending: list[tuple[int, int, Sent]] = []
    order, planned = itertools.count(), 0.0
    for now in itertools.count(0, STEP_MS):
        planned -= per_second() * STEP_MS / 1_000
        while planned < 0:
            number = next(begun)
            dice = random.Random(f"{seed}/{number}")
            start = now + dice.randrange(STEP_MS)
            whole = next(real, None) if dice.random() < REAL_SHARE else None
            sent = replayed(dice, whole, start) if whole else synthetic(dice, number, start)
            planned += len(sent)
            for record in sent:
                heapq.heappush(pending, (record.at, next(order), record))
        while pending and pending[0][0] <= now:
            yield heapq.heappop(pending)[2]


def _rounds(seed: int, sessions: list[Session]) -> Iterator[Session]:
    for turn in itertools.count() if sessions else ():
        for session in random.Random(f"{seed}/{turn}").sample(sessions, len(sessions)):
            yield [{**event, "tenant_id": f"{event['tenant_id']}-{turn}"} for event in session]


def replayed(dice: random.Random, session: Session, start: int) -> list[Sent]:
    """At another pace, and not undisturbed."""
    pace = min(dice.choice([5, 60, 400]), LONGEST_MS // len(session))
    sent: list[Sent] = []
    for event in session:
        start += dice.randrange(2 * pace + 1)
        for at, item in journey(dice, start, event, event["sequence"]):
            sent.append(Sent(at, orjson.dumps(item), item, astray=dice.random() < 0.02))
    return sent
