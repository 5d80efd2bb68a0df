"""Run clustering: groups a tenant's runs into tasks by what was said and done (density peaks, then merging).

Input: runs as features (`compiler.tasks.task_run`). Output: the runs of each task. The result depends on the set of
runs only, not on their order, and uses no list of verbs. Each run points to the densest of its neighbours; runs that
reach the same one form a cluster. Then similar clusters are merged, and each run moves to the most similar cluster. Two
runs that both did something, but share no action, are never in one task. If wishes foretell an action that only some of
a cluster's runs do, it is split there. If a cluster ends before another begins and each is the other's nearest, the
task changed at that time, and both become one cluster.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest, nsmallest
from math import floor, fsum, log2, sqrt
from typing import Final, NamedTuple

from hmx_pipeline.compiler.association import ContingencyTable, g_squared, tail

_LISTED: Final = 32  # most runs per feature in the index
_PROBES: Final = 6  # features of each kind that look up candidates: the heaviest
_CANDIDATES: Final = 24  # most candidates that are compared
_LIKE: Final = 0.40  # similarity of neighbours
_JOIN: Final = 0.50  # similarity of a run and its cluster, and of clusters that are merged
_GOAL: Final = 0.3  # weight of what was said; what was done has the rest
_COMMON_SAID: Final = 0.25  # share of a cluster's runs that must have a feature
_COMMON_DONE: Final = 0.5
_ROUNDS: Final = 3
_SEVERAL: Final = 2  # fewest successful runs of a cluster whose beginning and end are known
_SUCCEEDS: Final = 0.15  # similarity in actions of a successor, which starts after the other ended
_LEAST_WEIGHT: Final = 0.25
_PART: Final = 8  # fewest runs of each part of a cluster that is split
_SPLITS: Final = 16  # most splits that lead to one part
_WORDS: Final = 256  # most words of the wishes that are weighed in a split: those nearest to half of the runs
_ACTS: Final = 64  # most actions, of the same kind
_CHANCE: Final = 0.001  # highest probability that some word of the wishes goes with some action by chance
_TELLING: Final = 0.25  # share of the heaviest feature's weight that a probe needs
_ACT: Final = re.compile(r"d [^ =]+(?: [^-= ][^ =]*)*")
"""What is done, without options and arguments."""

Weights = Mapping[str, float]


class RunFeatures(NamedTuple):
    """The features of a run; those of what was said begin with `s `, those of what was done with `d `."""

    name: str
    rank: int
    said: frozenset[str]
    done: frozenset[str]
    at: int | None = None
    """Start time of a successful run, in milliseconds."""


class _WeightedFeatures(NamedTuple):
    said: Weights
    done: Weights
    said_weight: float
    done_weight: float
    did: bool
    """True if it did anything, even something unique."""


class _RunCluster(NamedTuple):
    side: _WeightedFeatures
    runs: int
    rank: int


def known(name: str, rank: int, said: Iterable[str], done: Iterable[str], at: int | None = None) -> RunFeatures:
    return RunFeatures(name, rank, frozenset(f"s {f}" for f in said), frozenset(f"d {f}" for f in done), at)


def tasks(runs: Sequence[RunFeatures]) -> list[list[str]]:
    """Return the run names of each task."""
    return _Likeness(runs).tasks()


class _Likeness:
    def __init__(self, runs: Sequence[RunFeatures]) -> None:
        self.runs = sorted(runs, key=lambda run: (run.rank, run.name))
        self.frequency = Counter(f for run in self.runs for f in (*run.said, *run.done))
        self.weight = {f: _weight(n, len(self.runs)) for f, n in self.frequency.items() if n > 1}
        self.sides = [self._side(run.said, run.done, bool(run.done)) for run in self.runs]
        self.index: dict[str, list[int]] = defaultdict(list)
        for i, run in enumerate(self.runs):
            for f in (*run.said, *run.done):
                if f in self.weight and len(self.index[f]) < _LISTED:
                    self.index[f].append(i)

    def tasks(self) -> list[list[str]]:
        label = self._uphill()
        for _ in range(_ROUNDS):
            clusters = self._clusters(label)
            joined = self._joined(clusters)
            label = [joined[c] for c in label]
            clusters = self._clusters(label)
            index = _index(clusters)
            label = [self._best(side, clusters, index, own) for side, own in zip(self.sides, label, strict=True)]
        label = self._told_apart(label)
        clusters = self._clusters(label)
        root = self._succeeded(clusters, label)
        found: dict[int, list[str]] = defaultdict(list)
        for run, c in zip(self.runs, label, strict=True):
            found[root.get(c, c)].append(run.name)
        return list(found.values())

    def _told_apart(self, label: Sequence[int]) -> list[int]:
        """Split clusters whose wishes foretell what is done: they are several tasks that begin alike."""
        members: dict[int, list[int]] = defaultdict(list)
        for i, c in enumerate(label):
            members[c].append(i)
        found, parts = list(label), [(own, 0) for own in members.values()]
        while parts:
            own, splits = parts.pop()
            if splits < _SPLITS and (act := self._foretold(own)):
                split = [[i for i in own if (act in self.runs[i].done) is does] for does in (True, False)]
                parts += [(part, splits + 1) for part in split]
            for i in own:
                found[i] = own[0]
        return found

    def _foretold(self, own: Sequence[int]) -> str:
        """Return the action of some of these runs, and mostly of these alone, that goes with a word of their wishes
        more surely than any other; empty if chance explains it."""
        having: dict[str, int] = defaultdict(int)
        for bit, i in enumerate(own):
            for f in (*self.runs[i].said, *self.runs[i].done):
                having[f] |= 1 << bit
        some = {f: n for f, bits in having.items() if _PART <= (n := bits.bit_count()) <= len(own) - _PART}

        def telling(most: int, features: Iterable[str]) -> list[str]:
            return nsmallest(most, features, key=lambda f: (abs(2 * some[f] - len(own)), f))

        words = telling(_WORDS, (f for f in some if f.startswith("s ")))
        acts = telling(_ACTS, (f for f, n in some.items() if _ACT.fullmatch(f) and 2 * n >= self.frequency[f]))
        tables: dict[ContingencyTable, str] = {}
        for act in acts:
            for word in words:
                both = (having[act] & having[word]).bit_count()
                if both * len(own) > some[act] * some[word]:
                    missed, only = some[act] - both, some[word] - both
                    table = ContingencyTable(both, only, missed, len(own) - both - only - missed)
                    tables[table] = max(act, tables.get(table, ""))
        best = max(((g_squared(table), act) for table, act in tables.items()), default=(0.0, ""))
        return best[1] if tail(best[0]) * len(acts) * len(words) <= _CHANCE else ""

    def _succeeded(self, clusters: Mapping[int, _RunCluster], label: Sequence[int]) -> dict[int, int]:
        """Map a cluster that continues an earlier one to the first of them."""
        times: dict[int, list[int]] = defaultdict(list)
        for run, c in zip(self.runs, label, strict=True):
            if run.at is not None:
                times[c].append(run.at)
        several = {c: clusters[c] for c, own in times.items() if len(own) >= _SEVERAL}
        index: dict[str, list[int]] = defaultdict(list)
        for c, one in sorted(several.items()):
            for f in one.side.done:
                index[f].append(c)
        nearest = {}
        for c, one in several.items():
            telling = [(weight, f) for f, weight in one.side.done.items() if len(index[f]) <= _LISTED]
            near = (d for d in _candidates(telling, index) if d != c)
            likes = ((round(_done_alike(one.side, several[d].side), 6), -d) for d in near)
            like, below = max(likes, default=(0.0, 0))
            if like >= _SUCCEEDS:
                nearest[c] = -below
        root: dict[int, int] = {}
        for c in sorted(nearest, key=lambda each: (times[each][0], each)):
            d = nearest[c]
            if nearest.get(d) == c and max(times[d]) < min(times[c]):
                root[c] = root.get(d, d)
        return root

    def _side(self, said: Iterable[str], done: Iterable[str], did: bool) -> _WeightedFeatures:
        a = {f: self.weight[f] for f in said if f in self.weight}
        b = {f: self.weight[f] for f in done if f in self.weight}
        return _WeightedFeatures(a, b, sum(a.values()), sum(b.values()), did)

    def _uphill(self) -> list[int]:
        """Label each run with the density peak that it reaches."""
        near = [self._neighbours(i) for i in range(len(self.runs))]
        height = [(round(fsum(own.values()), 6), -i) for i, own in enumerate(near)]
        parent = [max((i, *own), key=height.__getitem__) for i, own in enumerate(near)]
        label = list(range(len(self.runs)))
        for i in sorted(label, key=height.__getitem__, reverse=True):
            label[i] = i if parent[i] == i else label[parent[i]]
        return label

    def _neighbours(self, i: int) -> dict[int, float]:
        side = self.sides[i]
        found = ((j, _likeness(side, self.sides[j])) for j in _candidates(_probes(side), self.index) if j != i)
        return {j: like for j, like in found if like >= _LIKE}

    def _clusters(self, label: list[int]) -> dict[int, _RunCluster]:
        """Build the clusters; the label of each is its first run."""
        members: dict[int, list[int]] = defaultdict(list)
        for i, c in enumerate(label):
            members[c].append(i)
        found = {}
        for own in members.values():
            said = Counter(f for i in own for f in self.runs[i].said)
            done = Counter(f for i in own for f in self.runs[i].done)
            side = self._side(
                (f for f, n in said.items() if n >= _COMMON_SAID * len(own)),
                (f for f, n in done.items() if n >= _COMMON_DONE * len(own)),
                bool(done),
            )
            found[own[0]] = _RunCluster(side, len(own), own[0])
            for i in own:
                label[i] = own[0]
        return found

    def _joined(self, clusters: Mapping[int, _RunCluster]) -> dict[int, int]:
        """Merge each cluster into the larger one that is most similar, above the threshold."""
        index = _index(clusters)
        size = {c: (one.runs, -c) for c, one in clusters.items()}
        root: dict[int, int] = {}
        for c in sorted(clusters, key=size.__getitem__, reverse=True):
            near = (d for d in _candidates(_probes(clusters[c].side), index) if size[d] > size[c])
            best = max(((_likeness(clusters[c].side, clusters[d].side), size[d], d) for d in near), default=None)
            root[c] = root[best[2]] if best is not None and best[0] >= _JOIN else c
        return root

    def _best(
        self, side: _WeightedFeatures, clusters: Mapping[int, _RunCluster], index: Mapping[str, list[int]], own: int
    ) -> int:
        near = _candidates(_probes(side), index)
        likes = ((round(_likeness(side, clusters[c].side), 6), clusters[c].runs, -c) for c in near)
        best = max(likes, default=None)
        return -best[2] if best is not None and best[0] >= _JOIN else own


def _weight(n: int, runs: int) -> float:
    """Return the inverse document frequency, rounded to quarters. So one more run changes few weights, and sums are
    exact in any order."""
    return max(_LEAST_WEIGHT, (floor(4 * log2(runs)) - floor(4 * log2(n))) / 4)


def _likeness(a: _WeightedFeatures, b: _WeightedFeatures) -> float:
    """Return the weighted mean of the cosine of what was said and the Jaccard index of what was done."""
    common = _common(a.done, b.done)
    if a.did and b.did and not common:
        return 0.0
    goal = _common(a.said, b.said) / sqrt(a.said_weight * b.said_weight) if a.said and b.said else 0.0
    if not common:
        return _GOAL * goal if a.did or b.did else goal
    return _GOAL * goal + (1 - _GOAL) * common / (a.done_weight + b.done_weight - common)


def _done_alike(a: _WeightedFeatures, b: _WeightedFeatures) -> float:
    common = _common(a.done, b.done)
    return common / (a.done_weight + b.done_weight - common) if common else 0.0


def _common(a: Weights, b: Weights) -> float:
    if len(a) > len(b):
        a, b = b, a
    return sum(weight for f, weight in a.items() if f in b)


def _probes(side: _WeightedFeatures) -> list[tuple[float, str]]:
    """Return the heaviest features of each kind that are not much lighter than the heaviest."""
    found = []
    for own in (side.said, side.done):
        top = nlargest(_PROBES, ((weight, f) for f, weight in own.items()))
        found += [each for each in top if each[0] >= _TELLING * top[0][0]]
    return found


def _candidates(probes: Sequence[tuple[float, str]], index: Mapping[str, list[int]]) -> list[int]:
    shared: dict[int, float] = defaultdict(float)
    for weight, f in probes:
        for i in index.get(f, ()):
            shared[i] += weight
    return nsmallest(_CANDIDATES, shared, key=lambda i: (-shared[i], i))


def _index(clusters: Mapping[int, _RunCluster]) -> dict[str, list[int]]:
    index: dict[str, list[int]] = defaultdict(list)
    for c, one in sorted(clusters.items(), key=lambda pair: (-pair[1].runs, pair[0])):
        for _, f in _probes(one.side):
            if len(index[f]) < _LISTED:
                index[f].append(c)
    return index
