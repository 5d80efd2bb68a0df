"""Facts and artifacts of real sessions, read one by one: is each true, and worth an agent's attention?

What is read is chosen by a hash, so it is the same on every run and nobody picks it; what stands in several tenants is
read once. The verdicts of a reader, who followed each back to its events, stand in `verdicts.txt`: hash, verdict, and
of what kind it is. A hash is of the text without its numbers: what was said of it holds while the text does. What
nobody has read counts as no good. Enters: sessions. Leaves: shares, or with `python -m tests.quality.reading` the
sample, to be read. Fails: MissingError where of all that is asked about nothing has been read.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from pipeline.compiler.candidate import candidate
from pipeline.compiler.knowledge.records import records
from pipeline.compiler.registry import ARTIFACT_TYPES
from pipeline.contracts.artifact import Status
from pipeline.contracts.evidence import Contribution
from pipeline.contracts.knowledge import HOLDS
from tests.quality.figures import Bar, Case, Figure, mean
from tests.quality.sessions import MissingError, Recorded, Sessions

SETS: Final = ("claude_code", "swe", "tau", "locomo")
STATED: Final = ("fact", "policy")
SIZES: Final = {"facts": 100, "artifacts": 50}
USEFUL, LITTLE, UNTRUE = "useful", "little", "untrue"
VERDICTS: Final = Path(__file__).with_name("verdicts.txt")
_BAR: Final = Bar(least=0.95)
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
    return [distinct[name] for name in sorted(distinct)[:size]]


def _found(sessions: Sessions) -> Iterator[tuple[str, Read]]:
    for name in SETS:
        try:
            recorded = sessions.of(name)
        except MissingError:
            continue
        yield from _said(recorded)


def _said(recorded: Recorded) -> Iterator[tuple[str, Read]]:
    """What holds at the end: statements, and what packs may show of the artifacts."""
    patterns: defaultdict[tuple[str, str, str], list[Contribution]] = defaultdict(list)
    for contribution in recorded.contributions:
        patterns[contribution.tenant_id, *contribution.pattern].append(contribution)
    for (tenant, kind, _), own in sorted(patterns.items()):
        of = f"{recorded.name} {tenant}"
        if kind in STATED:
            for record in records(own):
                if record.status in HOLDS:
                    yield "facts", Read(_hash(of, record.text), of, record.text, tuple(record.source_events))
        elif kind in ARTIFACT_TYPES:
            made = candidate(own)
            if made is not None and made.status is Status.ACTIVE and not made.contradicted:
                text = "\n".join([f"{made.title} [{kind}]", made.summary, *ARTIFACT_TYPES[kind].lines(made.content)])
                yield "artifacts", Read(_hash(kind, text), of, text, tuple(made.source_events))


def _hash(about: str, text: str) -> str:
    return sha256(f"{about}\n{_NUMBER.sub('#', text)}".encode()).hexdigest()[:12]


def main() -> None:
    known, found = verdicts(), list(_found(Sessions()))
    for what, size in SIZES.items():
        for one in sample(found, what, size):
            print(f"{one.name} {' '.join(known.get(one.name, ()))}\n  {one.of}: {one.text}\n  {one.events[0]}\n")


if __name__ == "__main__":
    main()
