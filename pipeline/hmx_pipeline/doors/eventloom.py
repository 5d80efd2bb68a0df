"""Eventloom logs (`.eventloom/*.jsonl`) as HMX events, and back again to the same bytes.

Enters: the lines of files, one chain a file. Leaves: events that carry what a line says beside the event, and a report
that names every line that cannot be read, was altered, or does not follow the line before it. An altered line is left
out. Both envelopes may stand in one chain: v1 (`integrity`) and the older one (`prev_hash`, `hash`).
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final

import orjson

from hmx_pipeline.contracts.ids import too_long
from hmx_pipeline.contracts.timestamps import parse_instant
from hmx_pipeline.contracts.versions import HMX_VERSION
from hmx_pipeline.doors.draft import ImportReport

VENDOR: Final = "x-zaxy-"
KEPT: Final = "zaxy"
"""Key of the metadata with what only Eventloom has."""
SOURCE: Final = "eventloom"
_SECURITY: Final = "__zaxy_security"
_V1: Final = frozenset(("id", "type", "actorId", "threadId", "timestamp", "payload", "integrity"))
_LEGACY: Final = frozenset(("seq", "type", "actor", "thread", "timestamp", "payload", "hash"))
_NAMED: Final = re.compile(r"[A-Za-z0-9_.-]+")
_UNNAMED: Final = "event"
"""Stands for a type that HMX has no name for; the line keeps it."""

Json = dict[str, Any]


class EventloomImport:
    """One import of any number of logs."""

    def __init__(self, tenant: str, subject: str = "") -> None:
        self.report = ImportReport()
        self._tenant = tenant
        self._extra = {"subject_id": subject} if subject else {}
        self._names: Counter[str] = Counter()

    def events(self, lines: Iterable[tuple[str, bytes]]) -> Iterator[Json]:
        """Yield the events of lines, each given with the name of its file, file after file."""
        file, session, number, sequence = "", "", 0, 0
        before: str | None = None
        """The hash of the line before; empty if it could not be read."""
        for name, line in lines:
            if name != file:
                file, session, number, sequence, before = name, self._session(name), 0, 0, None
            number += 1
            if not line.strip():
                continue
            self.report.lines += 1
            where = f"{name}:{number}"
            record = self._read(where, line)
            if record is None:
                before = ""
                continue
            told, previous = _hashes(record)
            if before != "" and previous != before:
                self.report.note(where, "it does not follow the line before it; it is imported all the same")
            before = told
            try:
                event = self._event(record, line, session, sequence) if told in _sealed(record) else None
            except (orjson.JSONEncodeError, RecursionError):
                self.report.unread(where, "it is too deep, or its seq has more than 64 bits")
                continue
            if event is None:
                self.report.unread(where, "it was altered: its hash differs")
                continue
            yield event
            sequence += 1

    def _session(self, name: str) -> str:
        stem = PurePath(name).name.removesuffix(".gz").removesuffix(".jsonl")
        self._names[stem] += 1
        return stem if self._names[stem] == 1 else f"{stem}-{self._names[stem]}"

    def _read(self, where: str, line: bytes) -> Json | None:
        try:
            orjson.loads(line)  # it takes what intake does, and no more
            record = json.loads(line)
        except (ValueError, RecursionError):
            self.report.unread(where, "no JSON")
            return None
        if not isinstance(record, dict) or not (record.keys() >= _V1 or record.keys() >= _LEGACY):
            self.report.unread(where, "no line of an Eventloom log")
            return None
        names = (record["type"], record.get("actorId", record.get("actor")), record["timestamp"], _hashes(record)[0])
        if not all(isinstance(one, str) and one and not too_long(one) for one in names):
            self.report.unread(where, "type, actor, timestamp or hash is missing or too long")
        elif not isinstance(record["payload"], dict) or parse_instant(record["timestamp"]) is None:
            self.report.unread(where, "its payload is no object, or its timestamp is none")
        else:
            return record
        return None

    def _event(self, record: Json, line: bytes, session: str, sequence: int) -> Json:
        payload = orjson.loads(line)["payload"]  # as it will be read again
        security = payload.pop(_SECURITY, None) if "integrity" in record else record.get("security")
        told, previous = _hashes(record)
        number = record.get("seq", sequence + 1)
        kept: Json = {"envelope": "v1" if "integrity" in record else "legacy", "seq": number, "hash": told}
        kept |= {"prev_hash": previous} if previous else {}
        kept |= {"thread": record.get("threadId", record.get("thread"))}
        kept |= {"caused_by": record["causedBy"]} if record.get("causedBy") else {}
        kept |= {"security": security} if security is not None else {}
        kind = VENDOR + record["type"]
        event = {
            "hmx_version": HMX_VERSION,
            "event_id": record.get("id") or f"zaxy:{session}:{number}:{str(told)[:16]}",
            "event_type": kind if _NAMED.fullmatch(record["type"]) else VENDOR + _UNNAMED,
            "agent_id": record.get("actorId", record.get("actor")),
            "tenant_id": self._tenant,
            "session_id": session,
            "timestamp": record["timestamp"],
            "sequence": sequence,
            "content": payload,
            "metadata": {KEPT: kept, **self._extra},
            "source": SOURCE,
            "provenance_ref": f"eventloom://{session}/events/{number}#{told}",
        }
        parent = record.get("parentEventId")
        if isinstance(parent, str) and parent and not too_long(parent):
            event["parent_event_id"] = parent
        if line_of(orjson.loads(orjson.dumps(event))) != line:  # written otherwise than by Eventloom itself
            kept["line"] = line.decode()
        self.report.sessions.add(session)
        self.report.events[event["event_type"]] += 1
        return event


def line_of(event: Mapping[str, Any]) -> bytes:
    """Return the line of a log that an imported event was. Raises KeyError for any other event."""
    kept = event["metadata"][KEPT]
    if "line" in kept:
        return str(kept["line"]).encode()
    payload, security = dict(event["content"]), kept.get("security")
    kind = event["event_type"].removeprefix(VENDOR)
    record: Json
    if kept["envelope"] == "v1":
        payload |= {_SECURITY: security} if security is not None else {}
        record = {
            "id": event["event_id"],
            "type": kind,
            "actorId": event["agent_id"],
            "threadId": kept["thread"],
            "parentEventId": event.get("parent_event_id"),
            "causedBy": kept.get("caused_by", []),
            "timestamp": event["timestamp"],
            "payload": payload,
            "integrity": {"hash": _prefixed(kept["hash"]), "previousHash": _prefixed(kept.get("prev_hash"))},
        }
    else:
        record = {"seq": kept["seq"], "timestamp": event["timestamp"], "type": kind, "actor": event["agent_id"]}
        record |= {"thread": kept["thread"], "payload": payload}
        record |= {"security": security} if security is not None else {}
        record |= {"prev_hash": kept.get("prev_hash"), "hash": kept["hash"]}
    return json.dumps(record, separators=(",", ":")).encode()


def is_of_a_log(event: Mapping[str, Any]) -> bool:
    """Return True if `line_of` can tell its line."""
    kept = event["metadata"].get(KEPT)
    return isinstance(kept, dict) and kept.keys() >= {"envelope", "seq", "hash", "thread"}


def _hashes(record: Json) -> tuple[Any, Any]:
    """Return a line's own hash and that of the line before it, without their prefix."""
    sealed = record.get("integrity")
    told = (record.get("hash"), record.get("prev_hash"))
    if isinstance(sealed, dict):
        told = (sealed.get("hash"), sealed.get("previousHash"))
    own, previous = (one.removeprefix("sha256:") if isinstance(one, str) else None for one in told)
    return own, previous


def _sealed(record: Json) -> set[str]:
    """Return the hashes that a line may have: not all writers escape what is not ASCII."""
    if "integrity" in record:
        sealed = record["integrity"]
        previous = sealed.get("previousHash") if isinstance(sealed, dict) else None
        event = {name: value for name, value in record.items() if name != "integrity"}
        covered: Json = {"event": event, "previousHash": previous}
    else:
        covered = {name: value for name, value in record.items() if name != "hash"}
    forms = (
        json.dumps(covered, sort_keys=True, separators=(",", ":"), ensure_ascii=escaped) for escaped in (True, False)
    )
    return {hashlib.sha256(form.encode()).hexdigest() for form in forms}


def _prefixed(told: str | None) -> str | None:
    return None if told is None else f"sha256:{told}"
