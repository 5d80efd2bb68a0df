"""Facts and artifacts of real sessions, read one by one: is each true, and worth an agent's attention?

What is read is chosen by a hash, so it is the same on every run and nobody picks it; what stands in several tenants is
read once. The verdicts of a reader, who followed each back to its events, stand in `verdicts.txt`: hash, verdict, and
of what kind it is. A hash is of the text without its numbers: what was said of it holds while the text does. What
nobody has read counts as no good. Enters: sessions. Leaves: shares, or with `python -m tests.quality.reading` the
sample, to be read. Fails: MissingError where of all that is asked about nothing has been read.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from hmx_pipeline.contracts.artifact import Artifact, Status
from hmx_pipeline.contracts.knowledge import HOLDS, KnowledgeRecord
from hmx_pipeline.packs import render
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.topology import ARTIFACTS, KNOWLEDGE
from tests.quality.figures import Bar, Case, Figure, mean
from tests.quality.remembered import both_stages, newest
from tests.quality.sessions import MissingError, Sessions

SETS: Final = ("claude_code", "swe", "tau", "locomo")
STATED: Final = ("fact", "policy")
SIZES: Final = {"facts": 100, "artifacts": 40}
_DRAW: Final = "fourth"
"""Another word draws another sample: rules are not to be judged by what they were mended by."""
USEFUL, LITTLE, UNTRUE = "useful", "little", "untrue"
VERDICTS: Final = Path(__file__).with_name("verdicts.txt")
_BAR: Final = Bar(least=0.85)
_NUMBER: Final = re.compile(r"\d+")


class Read(NamedTuple):
    name: str
    """Hash of what is said."""
    of: str
    """Set and tenant."""
    text: str
    events: tuple[str, ...]


class Verdict(NamedTuple):
    verdict: str
    kind: str


def task(sessions: Sessions) -> Iterator[Figure]:
    known = verdicts()
    found = list(_found(sessions))
    for what, size in SIZES.items():
        read = sample(found, what, size)
        if not any(one.name in known for one in read):
            raise MissingError(f"no {what} of this data have been read; `python -m tests.quality.reading` prints them")
        told = [known.get(one.name, Verdict("", "not read")) for one in read]
        kinds = Counter(f"{one.verdict or 'unread'}, {one.kind}" for one in told)
        note = "; ".join(f"{count} {kind}" for kind, count in sorted(kinds.items(), key=lambda k: (-k[1], k[0])))
        true = [Case(one.name, v.verdict in (USEFUL, LITTLE)) for one, v in zip(read, told, strict=True)]
        useful = [Case(one.name, v.verdict == USEFUL) for one, v in zip(read, told, strict=True)]
        yield mean("reading", f"{len(read)} {what}", "true and useful", useful, _BAR, note)
        yield mean("reading", f"{len(read)} {what}", "true", true)


def verdicts() -> Mapping[str, Verdict]:
    lines = (line.split(maxsplit=2) for line in VERDICTS.read_text(encoding="utf-8").splitlines())
    return {name: Verdict(verdict, kind) for name, verdict, kind in lines}


def sample(found: Sequence[tuple[str, Read]], what: str, size: int) -> list[Read]:
    """Each text once, the lowest hashes."""
    distinct = {read.name: read for kind, read in reversed(found) if kind == what}
    return [distinct[name] for name in sorted(distinct, key=_drawn)[:size]]


def _drawn(name: str) -> str:
    return sha256(f"{_DRAW} {name}".encode()).hexdigest()


def _found(sessions: Sessions) -> Iterator[tuple[str, Read]]:
    for name in SETS:
        try:
            events = sessions.events(name)
        except MissingError:
            continue
        yield from _said(name, both_stages(events))


def _said(name: str, records: Sequence[TopicRecord]) -> Iterator[tuple[str, Read]]:
    """What holds at the end: statements and artifacts, as packs show them."""
    for value in newest(records, KNOWLEDGE):
        known = KnowledgeRecord.model_validate_json(value)
        if known.pattern.partition("/")[0] in STATED and known.status in HOLDS:
            of = f"{name} {known.tenant_id}"
            yield "facts", Read(_hash(of, known.text), of, known.text, tuple(known.source_events))
    for value in newest(records, ARTIFACTS):
        made = Artifact.model_validate_json(value)
        if made.status is Status.ACTIVE:
            of, text = f"{name} {made.tenant_id}", f"[{made.artifact_type}] {render.artifact(made)}"
            yield "artifacts", Read(_hash(of, text), of, text, tuple(made.source_events))


def _hash(about: str, text: str) -> str:
    return sha256(f"{about}\n{_NUMBER.sub('#', text)}".encode()).hexdigest()[:12]


def main() -> None:
    known, found = verdicts(), list(_found(Sessions()))
    for what, size in SIZES.items():
        for one in sample(found, what, size):
            print(f"{one.name} {' '.join(known.get(one.name, ()))}\n  {one.of}: {one.text}\n  {one.events[0]}\n")


if __name__ == "__main__":
    main()
