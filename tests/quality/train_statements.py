"""`python -m tests.quality.train_statements` makes the weights that
`pipeline/hmx_pipeline/compiler/knowledge/classifier.py` reads.

Enters: the open rulebook and the sessions of HMX_DATA, and the folder that HMX_STATEMENTS names, with sentences of
public repositories as `*.jsonl` (text, kind, lang, repo, path, commit, licence). `statements_sources.jsonl` says which
they are, so whoever has the repositories has the sentences: each stands there as the beginning of its SHA-256 with its
label. Leaves: `classifier.xz`, the same bytes on every run and machine, since only additions, products, quotients and
square roots of floats are taken, in an order that hashes decide. Fails: MissingError where a folder is not there.

With `--manifest` it writes `statements_sources.jsonl` anew.
"""

import gzip
import json
import lzma
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from math import sqrt
from pathlib import Path
from typing import Any, Final, NamedTuple

from hmx_pipeline.compiler.knowledge import classifier
from hmx_pipeline.compiler.knowledge.plain_statements import spoken
from tests.quality.sessions import FOLDER, MissingError

WEIGHTS: Final = Path(classifier.__file__).with_name("classifier.xz")
SOURCES: Final = Path(__file__).with_name("statements_sources.jsonl")
RULEBOOK: Final = "rulebook"
CHATS: Final = ("tau", "swe", "claude_code")
"""Of LoCoMo nothing is learnt: its licence allows to measure with it."""
_KINDS: Final = ("rules", "facts", "neither")
_EPOCHS: Final = 10
_KEPT: Final = 3
"""Of the epochs before this one no weights are averaged."""
_RATE: Final = 0.08
_MARGIN: Final = 2.0
_SMALL: Final = 1e-3
CHAT: Final = 0.7
"""What a sentence of a chat weighs beside one that was read and labelled."""
_UNIT: Final = 32
DIGITS: Final = 12


class Example(NamedTuple):
    text: str
    kind: str
    """`rule`, `fact` or `neither`."""
    lang: str
    repo: str
    weight: float = 1.0


class Said(NamedTuple):
    """A sentence of a chat, as the pipeline cuts messages."""

    chat: str
    text: str
    learnt: bool
    """Of a session whose hash is even; the others are measured with."""


def extra_folder() -> Path | None:
    named = os.environ.get("HMX_STATEMENTS")
    return Path(named) if named else None


def rulebook(folder: Path) -> list[Example]:
    if not (folder / RULEBOOK).is_dir():
        raise MissingError(f"{folder / RULEBOOK} is not there")
    rows = (row for kind in _KINDS for row in _rows(folder / RULEBOOK / f"{kind}.jsonl"))
    return [Example(row["text"], row["kind"], row["lang"], row["repo"].lower()) for row in rows]


def further(folder: Path) -> list[Example]:
    """Those of `requests.jsonl` weigh less: nobody read them one by one."""
    rows = ((row, file.stem) for file in sorted(folder.glob("*.jsonl")) for row in _rows(file))
    return [
        Example(row["text"], row["kind"], row["lang"], row["repo"].lower(), CHAT if stem == "requests" else 1.0)
        for row, stem in rows
    ]


def chats(folder: Path, names: Sequence[str] = CHATS) -> Iterator[Said]:
    """What users say in real sessions, each sentence once."""
    seen: set[str] = set()
    for name in names:
        with gzip.open(folder / f"{name}.ndjson.gz", "rt") as lines:
            for line in lines:
                event = json.loads(line)
                if event["event_type"] != "message" or (event["content"].get("role") != "user" and name != "locomo"):
                    continue
                text = event["content"].get("text") or ""
                for one in spoken(text.partition(":")[2] if name == "locomo" else text):
                    if one.lower() not in seen:
                        seen.add(one.lower())
                        yield Said(name, one, name in CHATS and even(event["session_id"]))


def even(name: str) -> bool:
    return int(sha256(name.encode()).hexdigest(), 16) % 2 == 0


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


class Sample(NamedTuple):
    buckets: tuple[int, ...]
    kind: str
    weight: float


def sample(example: Example) -> Sample:
    return Sample(tuple(sorted(set(classifier.buckets(example.text)))), example.kind, example.weight)


def learn(samples: Sequence[Sample], kind: str) -> list[int]:
    """A weight for each bucket: samples of the kind above the margin, the others below it, each step as large as a
    bucket's earlier ones allow; the mean of the later epochs."""
    weights, squares, sums = ([start] * classifier.BUCKETS for start in (0.0, _SMALL, 0.0))
    for epoch in range(_EPOCHS):
        for place in sorted(range(len(samples)), key=lambda place: sha256(f"{epoch} {place}".encode()).digest()):
            buckets, said, weight = samples[place]
            side = 1.0 if said == kind else -1.0
            if side * sum(weights[bucket] for bucket in buckets) >= _MARGIN:
                continue
            step = side * weight
            for bucket in buckets:
                squares[bucket] += step * step
                weights[bucket] += _RATE * step / sqrt(squares[bucket])
        if epoch >= _KEPT:
            sums = [before + now for before, now in zip(sums, weights, strict=True)]
    return [max(-127, min(127, round(one / (_EPOCHS - _KEPT) * _UNIT))) for one in sums]


def score(weights: Sequence[int], buckets: Iterable[int]) -> int:
    return sum(weights[bucket] for bucket in buckets)


def packed(rule: Sequence[int], fact: Sequence[int]) -> bytes:
    table = b"".join(one.to_bytes(1, "little", signed=True) for one in (*rule, *fact))
    return lzma.compress(table, preset=9 | lzma.PRESET_EXTREME)


def corpus(folder: Path) -> list[Example]:
    """All that is learnt from, in an order of its own."""
    more = extra_folder()
    found = [*rulebook(folder), *(further(more) if more is not None else ())]
    talk = [Example(one.text, "neither", "en", "", CHAT) for one in chats(folder) if one.learnt]
    return [*sorted(found), *sorted(talk)]


def manifest(folder: Path) -> str:
    """A line a file, with what of it was labelled how."""
    by_file: dict[tuple[str, ...], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in (row for file in sorted(folder.glob("*.jsonl")) for row in _rows(file)):
        where = tuple(row[name] for name in ("repo", "path", "commit", "licence"))
        by_file[where][f"{row['lang']} {row['kind']}"].append(sha256(row["text"].encode()).hexdigest()[:DIGITS])
    lines = (
        {**dict(zip(("repo", "path", "commit", "licence"), where, strict=True)), **{how: " ".join(sorted(those))
         for how, those in sorted(labels.items())}}
        for where, labels in sorted(by_file.items())
    )  # fmt: skip
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def main(arguments: Sequence[str]) -> None:
    more = extra_folder()
    if more is None or not more.is_dir():
        raise MissingError("HMX_STATEMENTS must name the folder of the labelled sentences")
    if "--manifest" in arguments:
        SOURCES.write_text(manifest(more), "utf-8")
        return
    samples = [sample(example) for example in corpus(FOLDER)]
    WEIGHTS.write_bytes(packed(learn(samples, "rule"), learn(samples, "fact")))


if __name__ == "__main__":
    main(sys.argv[1:])
