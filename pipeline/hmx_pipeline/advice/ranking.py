"""BM25 over a few hundred small documents, in memory (Robertson and Zaragoza 2009, with Lucene's idf).

Input: documents and a query, each as words. Output: a score for each document, in their order.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence, Set
from math import log
from typing import Final

K1: Final = 1.2
B: Final = 0.75


class Ranking:
    def __init__(self, documents: Sequence[Sequence[str]], b: float = B, asked: Set[str] | None = None) -> None:
        """Index the documents. With `asked`, only its words are indexed; others count towards the length."""
        self.size = len(documents)
        self._postings: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        lengths = []
        for number, document in enumerate(documents):
            counts = Counter(document if asked is None else [word for word in document if word in asked])
            lengths.append(len(document))
            for word, count in counts.items():
                self._postings[word].append((number, count))
        usual = sum(lengths) / self.size if any(lengths) else 1.0
        self._norms = [K1 * (1 - b + b * length / usual) for length in lengths]

    def scores(self, query: Iterable[str]) -> list[float]:
        """Return one score for each document. Each distinct query word counts once."""
        scores = [0.0] * self.size
        for word in sorted(set(query)):
            postings = self._postings.get(word, ())
            weight = log(1 + (self.size - len(postings) + 0.5) / (len(postings) + 0.5))
            for number, count in postings:
                scores[number] += weight * count * (K1 + 1) / (count + self._norms[number])
        return scores
