"""Real sessions, and what the pipeline makes of them: both folds' executor in process, without Kafka.

Enters: `NAME.ndjson.gz` of a folder and, where there is one, `NAME_labels.jsonl`: a line a session, with what is known
of it besides its events. Leaves: `Recorded`. Fails: MissingError where the file is not there.

A map of contributions is pure, so what would be known without some sessions is the map without their contributions:
held-out sessions cost no second run.
"""

import gzip
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import orjson

from hmx_pipeline.compiler.candidate import in_order
from hmx_pipeline.contracts.evidence import Contribution, Step, evidence_key
from hmx_pipeline.contracts.keys import session_key
from hmx_pipeline.contracts.timestamps import NS_PER_MS, parse_instant
from hmx_pipeline.retrieval.searchable import episode_step
from hmx_pipeline.stages.executor import Executor
from hmx_pipeline.stages.fold import Output
from hmx_pipeline.topology import EPISODES, EVIDENCE
from tests.support.inprocess import barrier_record, sessions_fold, tick_record
from tests.support.records import START_MS, LogRecord

FOLDER: Final = Path(os.environ.get("HMX_DATA") or Path(__file__).parents[3] / "shared" / "data")
_BATCH: Final = 2_000
_SILENCE_MS: Final = 60_000


class MissingError(Exception):
    """The data is not there; the message says what to do."""


@dataclass(frozen=True)
class Session:
    tenant_id: str
    session_id: str
    agent_id: str
    steps: tuple[Step, ...]
    """As a reader of memory sees them, in the order of their release."""
    label: dict[str, Any] = field(default_factory=dict)

    @property
    def first_at(self) -> int:
        return self.steps[0].at

    @property
    def last_at(self) -> int:
        return max(step.at for step in self.steps)


@dataclass(frozen=True)
class Recorded:
    """The sessions of a file, and what was learnt from them."""

    name: str
    sessions: tuple[Session, ...]
    """By their first event's time."""
    contributions: tuple[Contribution, ...]
    """What counts at the end, of all patterns, in event-time order."""

    def of_kind(self, kind: str) -> list[Contribution]:
        return self._by_kind.get(kind, [])

    @cached_property
    def _by_kind(self) -> dict[str, list[Contribution]]:
        found: dict[str, list[Contribution]] = defaultdict(list)
        for contribution in self.contributions:
            found[contribution.pattern_type].append(contribution)
        return found


class Sessions:
    """What a task may ask for; each file is run once."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder
        self._recorded: dict[str, Recorded] = {}

    def of(self, name: str) -> Recorded:
        if name not in self._recorded:
            self._recorded[name] = recorded(name, self.events(name), self._labels(name))
        return self._recorded[name]

    def events(self, name: str) -> list[dict[str, Any]]:
        file = self.folder / f"{name}.ndjson.gz"
        if not file.exists():
            raise MissingError(f"{file} is not there; set HMX_DATA to the folder of the open data")
        with gzip.open(file, "rb") as lines:
            return [orjson.loads(line) for line in lines]

    def _labels(self, name: str) -> dict[str, dict[str, Any]]:
        file = self.folder / f"{name}_labels.jsonl"
        if not file.exists():
            return {}
        return {label["session_id"]: label for label in map(json.loads, file.read_text().splitlines())}


def recorded(name: str, events: Iterable[dict[str, Any]], labels: dict[str, dict[str, Any]] | None = None) -> Recorded:
    steps: dict[tuple[str, str], list[Step]] = defaultdict(list)
    agents: dict[tuple[str, str], str] = {}
    said: dict[str, Contribution] = {}
    for output in published(events):
        value = orjson.loads(output.value or b"null")
        if output.topic == EPISODES:
            own = value["metadata"]["hmx"]
            key = (own["tenant_id"], value["sessionId"])
            steps[key].append(episode_step(value))
            agents.setdefault(key, own["agent_id"])
        elif output.topic == EVIDENCE and "contribution_id" in value:
            contribution = Contribution.model_validate_json(output.value or b"")
            said[evidence_key(contribution)] = contribution
    sessions = [
        Session(*key, agents[key], tuple(seen), (labels or {}).get(key[1], {})) for key, seen in sorted(steps.items())
    ]
    return Recorded(
        name,
        tuple(sorted(sessions, key=lambda s: (s.first_at, s.tenant_id, s.session_id))),
        tuple(in_order([c for c in said.values() if not c.withdrawn])),
    )


def published(events: Iterable[dict[str, Any]]) -> Iterator[Output]:
    """By the sessions stage. Events are appended when they happened."""
    records = _log(sorted(events, key=lambda e: (happened(e), e["tenant_id"], e["session_id"], e["sequence"])))
    executor = Executor(sessions_fold(), 0)
    for start in range(0, len(records), _BATCH):
        yield from executor.run(records[start : start + _BATCH]).outputs


def happened(event: dict[str, Any]) -> int:
    """In milliseconds."""
    instant = parse_instant(event["timestamp"])
    assert instant is not None, event["event_id"]
    return instant // NS_PER_MS


def _log(events: Sequence[dict[str, Any]]) -> list[LogRecord]:
    records: list[LogRecord] = []
    at = 0
    for item in events:
        at = max(at, happened(item))
        key = session_key(item["tenant_id"], item["session_id"]).encode()
        records.append(LogRecord(0, len(records), at, key, orjson.dumps(item)))
    end = at - START_MS
    records.append(tick_record(end + _SILENCE_MS, offset=len(records)))
    records.append(barrier_record(end + _SILENCE_MS, offset=len(records)))
    return records


FOLDS: Final = 5


def held_out(sessions: Sequence[Session], of: Callable[[Session], Any]) -> Iterator[tuple[set[str], list[Session]]]:
    """Five times: ids of the sessions that are known, and the sessions asked about. Sessions of which `of` says the
    same, such as the task, are never on both sides."""
    groups = {name: number % FOLDS for number, name in enumerate(sorted({of(session) for session in sessions}))}
    for fold in range(FOLDS):
        asked = [session for session in sessions if groups[of(session)] == fold]
        yield {session.session_id for session in sessions if groups[of(session)] != fold}, asked
