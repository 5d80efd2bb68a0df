"""Facts and artifacts of real sessions, read one by one: is each true, and worth an agent's attention?

What is read is chosen by a hash, so it is the same on every run and nobody picks it; what stands in several tenants is
read once. The verdicts of each reader, who followed it back to its events, stand in a file: hash, verdict, and of what
kind it is. A hash is of the text without its numbers: what was said of it holds while the text does. Where readers
differ, the stricter verdict counts, and what one of them has not read counts as no good. Enters: sessions. Leaves:
shares, or with `python -m tests.quality.reading` the sample, to be read, without what anybody said of it. Fails:
MissingError where of all that is asked about nothing has been read.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.options import HOLDS, Status
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
_STRICT: Final = (USEFUL, LITTLE, UNTRUE, "")
READERS: Final = tuple(Path(__file__).with_name(name) for name in ("verdicts.txt", "verdicts_second.txt"))
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
    verdict: str = ""
    kind: str = "not read"


def task(sessions: Sessions) -> Iterator[Figure]:
    known = [verdicts(file) for file in READERS]
    found = list(_found(sessions))
    for what, size in SIZES.items():
        read = sample(found, what, size)
        said = [[of.get(one.name, Verdict()) for of in known] for one in read]
        if not any(verdict.verdict for each in said for verdict in each):
            raise MissingError(f"no {what} of this data have been read; `python -m tests.quality.reading` prints them")
        told = [max(each, key=lambda verdict: _STRICT.index(verdict.verdict)) for each in said]
        kinds = Counter(f"{one.verdict or 'unread'}, {one.kind}" for one in told)
        note = "; ".join(f"{count} {kind}" for kind, count in sorted(kinds.items(), key=lambda k: (-k[1], k[0])))
        true = [Case(one.name, v.verdict in (USEFUL, LITTLE)) for one, v in zip(read, told, strict=True)]
        useful = [Case(one.name, v.verdict == USEFUL) for one, v in zip(read, told, strict=True)]
        yield mean("reading", f"{len(read)} {what}", "true and useful", useful, _BAR, note)
        yield mean("reading", f"{len(read)} {what}", "true", true)
        both = [tuple(v.verdict == USEFUL for v in each) for each in said if all(v.verdict for v in each)]
        if both:
            shares = ", ".join(f"{sum(each) / len(both):.2f}" for each in zip(*both, strict=True))
            note = f"useful to each reader: {shares}; kappa {kappa(both):.2f}"
            agreed = [Case(str(number), len({*each}) == 1) for number, each in enumerate(both)]
            yield mean("reading", f"{len(read)} {what}", "the readers agree", agreed, note=note)


def kappa(said: Sequence[Sequence[bool]]) -> float:
    """Agreement beyond chance (Cohen); 1 where both always said the same one thing."""
    agreed = sum(one == other for one, other in said) / len(said)
    first, second = (sum(pair[reader] for pair in said) / len(said) for reader in (0, 1))
    chance = first * second + (1 - first) * (1 - second)
    return 1.0 if chance == 1 else (agreed - chance) / (1 - chance)


def verdicts(file: Path) -> Mapping[str, Verdict]:
    lines = (line.split(maxsplit=2) for line in file.read_text(encoding="utf-8").splitlines())
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
    found = list(_found(Sessions()))
    for what, size in SIZES.items():
        for one in sample(found, what, size):
            print(f"{one.name}\n  {one.of}: {one.text}\n  {one.events[0]}\n")


if __name__ == "__main__":
    main()
