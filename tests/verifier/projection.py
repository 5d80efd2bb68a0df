"""What Redis must hold: a function of the topics that it is filled from, up to the positions that it says.

Enters: a snapshot. Leaves: faults, each naming its key. What was appended for
several partitions stands in no order, so it is compared as sets in which nothing stands twice.
"""

import hashlib
import re
import struct
import zlib
from collections import Counter, defaultdict
from collections.abc import Container, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

import msgspec
import orjson

from hmx_pipeline.advice.similar_sessions import PRECEDENTS, precedent_terms
from hmx_pipeline.contracts.episode import subject_of
from hmx_pipeline.contracts.evidence import Pattern
from hmx_pipeline.contracts.keys import join_key, split_key
from hmx_pipeline.retrieval.searchable import (
    artifact_labels,
    artifact_terms,
    artifact_time,
    contribution_labels,
    corrected,
    document,
    document_labels,
    document_terms,
    episode_step,
    event_time,
    knowledge_labels,
    knowledge_terms,
    knowledge_time,
    session_step,
    spoken_step,
)
from hmx_pipeline.retrieval.vectors import document_vector
from tests.verifier.cuts import latest, taken, takes_contribution
from tests.verifier.erasures import Erased, read_mark
from tests.verifier.faults import Kind, Report, difference
from tests.verifier.log import Row, Snapshot
from tests.verifier.memory import Memory, Value, root_of
from tests.verifier.rules import ARTIFACTS, CONTROLS, EPISODES, ERASURES, EVIDENCE, KNOWLEDGE, MATERIALISED

PATTERN_SAMPLE: Final = 4_096
TENANT_SAMPLE: Final = 524_288
"""Contributions that stay in Redis, of a pattern and of a tenant."""
STEPS: Final = 64
"""A session's recent steps."""
MESSAGES: Final = 4
"""Likewise, of what was said."""
CHANGES: Final = 10_000
"""Artifacts, and knowledge records, of which the last change is told."""
_NUMBER: Final = struct.Struct("<Q")
_ROW: Final = struct.Struct("<QQqHQ")
_APPENDED: Final = {b"term": _NUMBER, b"tag": _NUMBER, b"rows": _ROW}
"""Kinds of keys to which partitions append, each what has so many bytes. Vectors, beside a number, have a byte for each
of the dimensions that their key names, at most so many."""
_DIMENSIONS: Final = 1_024
_ERASING: Final = re.compile(rb"[^{]*\{[^}]*\}:erasing:[0-9a-f-]{36}")
_ENCODER: Final = msgspec.msgpack.Encoder()
Json = dict[str, Any]
Marks = dict[str, list[Erased]]


def compare_memory(report: Report, snapshot: Snapshot) -> None:
    assert snapshot.memory is not None
    found = sorted_parts(snapshot.memory)
    root = root_of(snapshot.prefix)
    positions = _positions(report, snapshot, found.pop(f"{root}:positions".encode(), {}))
    _guards(report, found, f"{root}:guard:".encode(), positions)
    report.same(f"Redis {root}:filling", 16 if positions else 0, len(found.pop(f"{root}:filling".encode(), b"")))
    _goals(report, root, found.pop(f"{root}:goals".encode(), {}), positions)
    expected = Expected(root, _marks(snapshot, positions))
    for topic in MATERIALISED:
        for number, part in enumerate(snapshot.topics[topic]):
            for row in part.rows:
                if row.offset < positions.get((topic, number), 0):
                    _take(report, expected, topic, number, row)
    wanted = expected.keys()
    expected.ghosts.leave(found, wanted)
    for key in [key for key in found if _ERASING.match(key)]:
        del found[key]  # the service's own, for a week: what an erasure took, for its receipt
    ids = {topic.encode(): snapshot.topic_ids[topic].encode() for topic in MATERIALISED}
    wanted[f"{root}:topics".encode()] = ids
    for key in sorted(wanted.keys() | found.keys()):
        if (mine := wanted.get(key)) != (theirs := found.get(key)):
            _differ(report, f"Redis {key.decode()}", mine, theirs)
    report.compared["Redis keys"] += len(wanted)


def _marks(snapshot: Snapshot, positions: dict[tuple[str, int], int]) -> Marks:
    """By tenant: what any partition's mark covers is left out, wherever it is read."""
    found: Marks = defaultdict(list)
    for number, part in enumerate(snapshot.topics[ERASURES]):
        for row in part.rows:
            if row.offset < positions.get((ERASURES, number), 0) and row.value is not None:
                mark = read_mark(orjson.loads(row.value))
                found[mark.tenant_id].append(mark)
    return found


def _take(report: Report, expected: "Expected", topic: str, number: int, row: Row) -> None:
    """What is not what its topic holds is left out of memory."""
    try:
        expected.take(topic, number, row)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        found = f"{type(error).__name__} for key {row.key!r}"
        report.add(Kind.UNFOUNDED, f"{topic}/{number} offset {row.offset}", "what its topic holds", found)


def _positions(report: Report, snapshot: Snapshot, stored: Any) -> dict[tuple[str, int], int]:
    """Each at its topic's end; a transaction's last marker may stand beyond the last record."""
    positions: dict[tuple[str, int], int] = {}
    for topic in MATERIALISED:
        for number, part in enumerate(snapshot.topics[topic]):
            text = stored.get(f"{topic}/{number}".encode(), b"0")
            at = int(text) if text.isdigit() else 0
            end = part.rows[-1].offset + 1 if part.rows else part.low
            if not end <= at <= part.high:
                report.add(Kind.BEHIND, f"Redis positions {topic}/{number}", f"{end} to {part.high}", text)
            positions[topic, number] = at
    return positions


def _goals(report: Report, root: str, goals: Any, positions: dict[tuple[str, int], int]) -> None:
    """Each partition's fill has come to the end that it was begun with."""
    for (topic, number), at in positions.items():
        start, _, end = goals.get(f"{topic}/{number}".encode(), b"").partition(b"-")
        filled = start.isdigit() and end.isdigit() and int(start) <= int(end) <= at
        report.same(f"Redis {root}:goals {topic}/{number} filled", True, filled)


def _guards(report: Report, found: Memory, prefix: bytes, positions: dict[tuple[str, int], int]) -> None:
    """What whoever writes a block watches: the same positions once more, a key for each."""
    guards = {key: found.pop(key) for key in [key for key in found if key.startswith(prefix)]}
    for (topic, number), at in positions.items():
        key = prefix + f"{topic}/{number}".encode()
        report.same(f"Redis {key.decode()}", b"%d" % at, guards.pop(key, None))
    for key, value in guards.items():
        report.same(f"Redis {key.decode()}", None, value)


def _differ(report: Report, where: str, expected: Value | None, found: Value | None) -> None:
    if isinstance(expected, dict) and isinstance(found, dict):
        for field in sorted(expected.keys() | found.keys()):
            name = field.decode(errors="backslashreplace") if len(field) < 100 else f"{field[:40]!r}…"
            report.same(f"{where} {name}", expected.get(field), found.get(field))
    elif isinstance(expected, bytes) and isinstance(found, bytes):
        if shape := _appended(where.encode()):
            _differ_in_parts(report, where, shape, expected, found)
        else:
            report.add(Kind.DIFFERING, where, *difference(expected, found))
    elif isinstance(expected, frozenset) and isinstance(found, frozenset):
        report.add(Kind.DIFFERING, where, f"{sorted(expected - found)} more", f"{sorted(found - expected)} more")
    else:
        report.same(where, expected, found)


def _differ_in_parts(report: Report, where: str, shape: struct.Struct, expected: bytes, found: bytes) -> None:
    whole = [parts[: len(parts) // shape.size * shape.size] for parts in (expected, found)]
    mine, theirs = (Counter(shape.iter_unpack(parts)) for parts in whole)
    for part in sorted((mine - theirs) | (theirs - mine)):
        number = part[0] >> 4 if ":term:" in where else part[0]
        name = f"{where} of episode {number >> 48}:{number & (1 << 48) - 1}"
        kind = Kind.LOST if part not in theirs else Kind.DOUBLED if part in mine else Kind.UNFOUNDED
        report.add(kind, name, mine[part], theirs[part])


class Ghosts:
    """What erased records may have left: a Redis that was filled before the erasure keeps places without content, and
    positions; one that was filled later has neither. What a policy takes may come before its cut rises, or later."""

    def __init__(self) -> None:
        self.places: dict[str, set[int]] = defaultdict(set)
        """Root → numbers of documents."""
        self.contributions: dict[str, set[bytes]] = defaultdict(set)
        self.newest: dict[str, set[int]] = defaultdict(lambda: {0})
        self.version: dict[str, dict[bytes, set[int]]] = defaultdict(lambda: defaultdict(set))
        self.tenants: dict[str, bytes] = {}

    def see(self, root: str, tenant_id: str, topic: str, number: int, row: Row) -> None:
        self.tenants[root] = tenant_id.encode()
        self.version[root][f"{topic}/{number}".encode()].add(row.offset)

    def leave(self, found: Memory, wanted: Memory) -> None:
        """Takes them out of what was found."""
        for root, tenant in self.tenants.items():
            version = {field: [b"%d" % n for n in offsets] for field, offsets in self.version[root].items()}
            self._choose(found, wanted, f"{root}:version".encode(), version)
            self._choose(found, wanted, f"{root}:newest".encode(), {b"at": self.newest[root]})
            places = self.places[root]
            blank = {b"%d" % n: [zlib.crc32(b"", n & 0xFFFFFFFF).to_bytes(4, "little")] for n in places}
            self._choose(found, wanted, f"{root}:documents".encode(), blank)
            for key in [key for key in found if key.startswith(f"{root}:".encode())]:
                value = found[key]
                if _kind(key) == b"pchanges" and isinstance(value, dict):
                    found[key] = {n: at for n, at in value.items() if n not in self.contributions[root]}
                elif _kind(key) in (b"rows", b"vector") and isinstance(value, bytes):
                    size = _appended(key).size  # type: ignore[union-attr]  # these kinds are appended to
                    parts = [value[i : i + size] for i in range(0, len(value), size)]
                    gone = {_NUMBER.pack(n) + bytes(size - _NUMBER.size) for n in places}
                    found[key] = b"".join(part for part in parts if part not in gone)
                if not found[key] and key not in wanted:
                    del found[key]
            self._tenant(found, wanted, root.rpartition(":")[0], tenant)

    def _choose(self, found: Memory, wanted: Memory, key: bytes, also: Mapping[bytes, Container[Any]]) -> None:
        """A field may have one of these values instead of the one that is wanted, or beside."""
        fields: Any = found.get(key)
        mine: Any = wanted.get(key, {})
        if not isinstance(fields, dict):
            return
        for field, values in also.items():
            if field in fields and fields[field] in values:
                fields.pop(field)
                if field in mine:
                    fields[field] = mine[field]
        if not fields:
            del found[key]

    def _tenant(self, found: Memory, wanted: Memory, root: str, tenant: bytes) -> None:
        key = f"{root}:tenants".encode()
        known: Any = found.get(key, frozenset())
        if tenant not in wanted.get(key, frozenset()):
            found[key] = known - {tenant}
            if not found[key]:
                del found[key]


class Expected:
    """Memory as the records so far make it, without what is erased."""

    def __init__(self, root: str, marks: Marks) -> None:
        self._root = root
        self._marks = marks
        self._cuts = {tenant_id: latest(mark.cuts for mark in own) for tenant_id, own in marks.items()}
        self.ghosts = Ghosts()
        self._roots: dict[str, str] = {}
        self._strings: dict[bytes, bytes] = {}
        self._hashes: dict[bytes, dict[bytes, bytes]] = defaultdict(dict)
        self._same_id: dict[bytes, bytes] = defaultdict(bytes)
        """Session and episode, one behind the other, of all that have an event id."""
        self._tenants: set[bytes] = set()
        self._newest: dict[bytes, int] = {}
        self._expiring: dict[bytes, dict[bytes, float]] = defaultdict(dict)
        self._steps: dict[bytes, dict[int, bytes]] = defaultdict(dict)
        self._said: dict[bytes, dict[int, bytes]] = defaultdict(dict)
        self._postings: dict[bytes, list[bytes]] = defaultdict(list)
        self._artifacts: dict[tuple[str, str], bytes] = {}
        self._known: dict[tuple[str, str], bytes] = {}
        self._changed: dict[bytes, dict[str, int]] = defaultdict(dict)
        self._precedents: dict[str, dict[str, bytes | None]] = defaultdict(dict)
        """Root → contribution → its card; None where it does not say any more what was done."""
        self._samples: dict[str, dict[str, dict[str, int]]] = defaultdict(dict)
        """Root → pattern → contribution → score; names percent-encoded."""

    def take(self, topic: str, number: int, row: Row) -> None:
        match topic:
            case "hmx.episodes.v1":
                self._episode(number, row)
            case "hmx.evidence.v1":
                self._contribution(number, row)
            case "hmx.artifacts.v1":
                self._artifact(number, row)
            case "hmx.knowledge.v1":
                self._knowledge(number, row)

    def _tenant(self, tenant_id: str, topic: str, number: int, row: Row) -> str:
        """The root of the tenant's keys; it exists, and stands at this record."""
        root = self._root_of(tenant_id)
        self._tenants.add(tenant_id.encode())
        self._hashes[f"{root}:version".encode()][f"{topic}/{number}".encode()] = b"%d" % row.offset
        return root

    def _root_of(self, tenant_id: str) -> str:
        root = self._roots.get(tenant_id)
        if root is None:
            name = quote(tenant_id, safe="")
            if len(name) > 64 or name[:1] == "~":
                name = "~" + hashlib.sha256(name.encode()).hexdigest()
            root = self._roots[tenant_id] = f"{self._root}:{{{name}}}"
        return root

    def _episode(self, number: int, row: Row) -> None:
        value = row.value or b""
        fields: Json = orjson.loads(value)
        own = fields["metadata"]["hmx"]
        tenant_id, session, origin = own["tenant_id"], fields["sessionId"], own["origin"]
        about = origin["partition"], origin["offset"], session, subject_of(fields)
        late = own.get("claims", 0)  # what tells whose the session was before it leaves with that
        kinds = ["episodes"] if late else ["episodes", fields["eventType"]]
        left = taken(self._cuts.get(tenant_id, {}), max(event_time(fields), late), *kinds)
        if left or any(mark.hides_episode(*about) for mark in self._marks.get(tenant_id, ())):
            root = self._root_of(tenant_id)
            self.ghosts.see(root, tenant_id, EPISODES, number, row)
            self.ghosts.places[root].add(number << 48 | row.offset)
            self.ghosts.newest[root].add(event_time(fields))
            return
        root = self._tenant(tenant_id, EPISODES, number, row)
        self._same_id[_key(root, "event", fields["id"])] += quote(session, safe="").encode() + b"\0" + value + b"\0"
        digests, name = self._hashes[f"{root}:edigests".encode()], quote(fields["id"], safe="").encode()
        part = zlib.crc32(value, zlib.crc32(quote(session, safe="").encode()))
        digests[name] = b"%d" % (int(digests.get(name, b"0")) + part)
        newest = f"{root}:newest".encode()
        at = event_time(fields)
        ttl = fields["metadata"]["hmx"].get("ttl_seconds")
        if ttl is not None:
            held = self._expiring[f"{root}:expiring".encode()]
            name, until = fields["id"].encode(), float(min(at + ttl * 1000, 2**53))
            held[name] = max(held.get(name, until), until)
        moves = fields["eventType"] != "memory.reinforcement"
        self._newest[newest] = max(self._newest.get(newest, 0), at if moves else 0)
        step = episode_step(fields)
        done = session_step(step)
        if done is not None:
            self._steps[_key(root, "session", session)][done.index] = _ENCODER.encode(done)
        said = spoken_step(step)
        if said is not None:
            self._said[_key(root, "spoken", session)][said.index] = _ENCODER.encode(said)
        found, subject = document(fields, step), subject_of(fields)
        if found is not None:
            place = number << 48 | row.offset
            packed = _ENCODER.encode(found)
            check = zlib.crc32(packed, place & 0xFFFFFFFF).to_bytes(4, "little")
            self._hashes[f"{root}:documents".encode()][b"%d" % place] = check + packed
            terms = document_terms(found)
            for term, n in Counter(terms).items():
                self._postings[_key(root, "term", term)].append(_NUMBER.pack(place << 4 | min(n, 15)))
            for label in document_labels(fields):
                self._postings[_key(root, "tag", label)].append(_NUMBER.pack(place))
            if near := document_vector(fields):
                self._postings[_key(root, "vector", near.space)].append(_NUMBER.pack(place) + near.values)
            packed_row = _ROW.pack(place, _mark(session), found.at, min(len(terms), 0xFFFF), _subject_hash(subject))
            self._postings[f"{root}:rows".encode()].append(packed_row)
        known, name = self._hashes[f"{root}:subjects".encode()] if subject else {}, quote(session, safe="").encode()
        if subject and name not in known:
            known[name] = subject.encode()
            self._hashes[f"{root}:assigned".encode()][name + b":" + subject.encode()] = b"1"

    def _contribution(self, number: int, row: Row) -> None:
        if row.header("hmx-kind") in CONTROLS:
            return
        fields = orjson.loads(row.value or b"")
        name, tenant_id = quote(fields["contribution_id"], safe=""), fields["tenant_id"]
        place = row.number("hmx-origin-partition"), row.number("hmx-origin-offset")
        left = takes_contribution(self._cuts.get(tenant_id, {}), fields)
        if left or any(mark.hides_contribution(fields, *place) for mark in self._marks.get(tenant_id, ())):
            root = self._root_of(tenant_id)
            self.ghosts.see(root, tenant_id, EVIDENCE, number, row)
            self.ghosts.contributions[root].add(name.encode())
            return
        root = self._tenant(tenant_id, EVIDENCE, number, row)
        self._strings[_key(root, "contribution", fields["contribution_id"])] = row.value or b""
        of = Pattern(fields["pattern_type"], fields["pattern_key"])
        pattern = quote(join_key(*of), safe="")
        segment = join_key(fields["session_id"], fields["segment_id"]).encode()
        score = int.from_bytes(hashlib.sha256(segment).digest()[:8], "big") >> 11
        self._samples[root].setdefault(pattern, {})[name] = score
        if of in PRECEDENTS:
            self._changed[f"{root}:pchanges:{number}".encode()][name] = row.offset
            self._precedents[root][name] = _precedent_card(row.value or b"", fields, score)

    def _artifact(self, number: int, row: Row) -> None:
        tenant_id, artifact_id = split_key((row.key or b"").decode())
        root = self._tenant(tenant_id, ARTIFACTS, number, row)
        key = _key(root, "artifact", artifact_id)
        self._changed[f"{root}:achanges:{number}".encode()][artifact_id] = row.offset
        if row.value is None:
            self._strings.pop(key, None)
            self._artifacts.pop((root, artifact_id), None)
        else:
            self._strings[key] = row.value
            self._artifacts[root, artifact_id] = row.value

    def _knowledge(self, number: int, row: Row) -> None:
        tenant_id, record_id = split_key((row.key or b"").decode())
        root = self._tenant(tenant_id, KNOWLEDGE, number, row)
        key = _key(root, "knowledge", record_id)
        self._changed[f"{root}:kchanges:{number}".encode()][record_id] = row.offset
        if row.value is None:
            self._strings.pop(key, None)
            self._known.pop((root, record_id), None)
        else:
            self._strings[key] = row.value
            self._known[root, record_id] = row.value

    def keys(self) -> Memory:
        memory: Memory = {**self._strings, **{key: dict(fields) for key, fields in self._hashes.items()}}
        if self._tenants:
            memory[f"{self._root}:tenants".encode()] = frozenset(self._tenants)
        memory.update({key: {b"at": float(at)} for key, at in self._newest.items()})
        memory.update(self._expiring)
        memory.update({key: _last(changed) for key, changed in self._changed.items()})
        memory.update({key: _recent(steps, STEPS) for key, steps in self._steps.items()})
        memory.update({key: _recent(steps, MESSAGES) for key, steps in self._said.items()})
        memory.update({key: b"".join(sorted(parts)) for key, parts in self._postings.items()})
        memory.update({key: _in_order(key, value) for key, value in self._same_id.items()})
        self._list(memory)
        for root, patterns in self._samples.items():
            _sample(memory, root, patterns)
        for root, told in self._precedents.items():
            kept = {n.encode(): c for n, c in told.items() if c and f"{root}:contribution:{n}".encode() in memory}
            if kept:
                memory[f"{root}:pcards".encode()] = kept
        _digests(memory, "contribution", "knowledge", "artifact")
        return memory

    def _list(self, memory: Memory) -> None:
        listed: dict[bytes, dict[bytes, bytes]] = defaultdict(dict)
        for (root, artifact_id), value in self._artifacts.items():
            fields, name = orjson.loads(value), artifact_id.encode()
            listed[_key(root, "artifacts", fields["status"])][name] = fields["artifact_type"].encode()
            shown = fields["metadata"].get("transition", {}).get("from") == "active"
            if fields["status"] == "active" or (fields["status"] in ("deprecated", "archived") and shown):
                labels, terms = artifact_labels(fields), artifact_terms(fields)
                owner = fields["metadata"].get("subject_id") or ""
                about = (fields["artifact_type"], artifact_time(fields), labels, terms, owner)
                listed[f"{root}:acards".encode()][name] = _card(value, *about)
        for (root, record_id), value in self._known.items():
            fields, name = orjson.loads(value), record_id.encode()
            listed[_key(root, "known", fields["status"])][name] = fields["kind"].encode()
            searched = fields["body"].get("entity_type") != "reinforcement"
            if searched and fields["status"] in ("active", "unresolved", "superseded"):
                kind = "" if fields["status"] == "superseded" else fields["kind"]
                about = (kind, knowledge_time(fields), knowledge_labels(fields), knowledge_terms(fields))
                card = [*_about(value, *about, fields.get("subject_id") or ""), corrected(fields)]
                listed[f"{root}:kcards".encode()][name] = _ENCODER.encode(card)
        memory.update(listed)


def _digests(memory: Memory, *kinds: str) -> None:
    """Beside each record: of those that stay."""
    for key, value in list(memory.items()):
        root, _, rest = key.rpartition(b"}:")
        kind, _, name = rest.partition(b":")
        if name and kind.decode() in kinds and isinstance(value, bytes):
            held = memory.setdefault(root + b"}:%bdigests" % kind[:1], {})
            assert isinstance(held, dict)
            held[name] = hashlib.blake2b(value, digest_size=8).digest()  # type: ignore[assignment]


def _precedent_card(value: bytes, fields: Json, score: int) -> bytes | None:
    terms = precedent_terms(fields)
    about = (fields["pattern_type"], fields["last_at"], contribution_labels(fields), terms, fields.get("subject", ""))
    return _ENCODER.encode([*_about(value, *about), score]) if terms else None


def _card(value: bytes, kind: str, at: int, labels: tuple[str, ...], terms: list[str], subject: str) -> bytes:
    return _ENCODER.encode(_about(value, kind, at, labels, terms, subject))


def _about(value: bytes, kind: str, at: int, labels: tuple[str, ...], terms: list[str], subject: str = "") -> list[Any]:
    digest = hashlib.blake2b(value, digest_size=16).digest()
    return [digest, kind, at, labels, {term: terms.count(term) for term in sorted(set(terms))}, subject]


def _last(changed: dict[str, int]) -> dict[bytes, float]:
    rows = sorted((at, name.encode()) for name, at in changed.items())
    return {name: float(at) for at, name in rows[-CHANGES:]}


def _sample(memory: Memory, root: str, patterns: dict[str, dict[str, int]]) -> None:
    """Of each pattern the lowest scores stay, and of these the lowest of the tenant."""
    stay: list[tuple[int, str]] = []
    for pattern, scores in patterns.items():
        kept = sorted((score, name) for name, score in scores.items())[:PATTERN_SAMPLE]
        stay += [(score, f"{pattern}:{name}") for score, name in kept]
    lowest = sorted(stay)[:TENANT_SAMPLE]
    samples: dict[bytes, dict[bytes, float]] = defaultdict(dict)
    for score, place in lowest:
        pattern, _, name = place.partition(":")
        samples[f"{root}:sample:{pattern}".encode()][name.encode()] = float(score)
        samples[f"{root}:samples".encode()][place.encode()] = float(score)
    memory.update(samples)
    places = {place for _, place in lowest}
    for pattern, scores in patterns.items():
        for name in scores:
            if f"{pattern}:{name}" not in places:
                del memory[f"{root}:contribution:{name}".encode()]


def sorted_parts(memory: Memory) -> Memory:
    """What was appended to a key, in the order of its bytes."""
    return {key: _in_order(key, value) if isinstance(value, bytes) else value for key, value in memory.items()}


def _in_order(key: bytes, value: bytes) -> bytes:
    if _kind(key) == b"event":
        parts = value.split(b"\0")  # session, episode, session …, and nothing behind the last
        pairs = sorted(zip(parts[:-1:2], parts[1::2], strict=False))
        return b"".join(session + b"\0" + episode + b"\0" for session, episode in pairs) + parts[-1]
    shape = _appended(key)
    size = shape.size if shape else len(value) or 1
    return b"".join(sorted(value[i : i + size] for i in range(0, len(value), size)))


def _kind(key: bytes) -> bytes:
    return key.rpartition(b"}:")[2].partition(b":")[0]


def _appended(key: bytes) -> struct.Struct | None:
    """The shape of what partitions append to it; None of other keys."""
    kind, _, name = key.rpartition(b"}:")[2].partition(b":")
    if kind == b"vector":
        return struct.Struct(f"<Q{min(int(name.partition(b'%3A')[0]), _DIMENSIONS)}s")
    return _APPENDED.get(kind)


def _recent(steps: dict[int, bytes], most: int) -> dict[bytes, float]:
    return {steps[index]: float(index) for index in sorted(steps)[-most:]}


@lru_cache(maxsize=100_000)
def _key(root: str, kind: str, name: str) -> bytes:
    return f"{root}:{kind}:{quote(name, safe='')}".encode()


@lru_cache(maxsize=10_000)
def _subject_hash(name: str) -> int:
    return (int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little") or 1) if name else 0


def _mark(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=8).digest(), "little")
