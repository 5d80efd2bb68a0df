"""Which runs are of one task. In: runs, each as what was said and what was
done (`tasks.run`). Out: the runs of each task.

Of the set of runs alone: no list of verbs, no order of arrival. A run points to the most typical of those like it; what
is reached that way is a cluster. Then clusters alike become one, and each run goes to the cluster that it is most like.
Two runs that both did something and share nothing of it are never one, whatever was said. Where one cluster ends before
another begins, and either is most like the other, the task is done otherwise since then. Nothing fails.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest, nsmallest
from math import floor, fsum, log2, sqrt
from typing import Final, NamedTuple

_LISTED: Final = 32  # runs by which a feature is looked up
_PROBES: Final = 6  # heaviest features, of what was said and of what was done, by which a run's like are looked for
_CANDIDATES: Final = 24  # of these so many are compared
_LIKE: Final = 0.40  # two runs are neighbours
_JOIN: Final = 0.50  # a run belongs to a cluster; two clusters are one
_GOAL: Final = 0.3  # the weight of what was said beside what was done
_COMMON_SAID: Final = 0.25  # a cluster has the features that so many of its runs have
_COMMON_DONE: Final = 0.5
_ROUNDS: Final = 3
_SEVERAL: Final = 2  # runs that went well, of a cluster that has an end and a beginning
_SUCCEEDS: Final = 0.15  # of what was done; mutual neighbours that never overlap in time are seldom two tasks
_LEAST_WEIGHT: Final = 0.25
_TELLING: Final = 0.25  # of the heaviest feature's weight

Weights = Mapping[str, float]


class Known(NamedTuple):
    """A run by what it is known by; the features of what was said begin with `s `, those of what was done with `d `."""

    name: str
    rank: int
    said: frozenset[str]
    done: frozenset[str]
    at: int | None = None
    """When it was done, if it went well."""


class _Side(NamedTuple):
    said: Weights
    done: Weights
    said_weight: float
    done_weight: float
    did: bool
    """Something, be it what no other run did."""


class _Cluster(NamedTuple):
    side: _Side
    runs: int
    rank: int


def known(name: str, rank: int, said: Iterable[str], done: Iterable[str], at: int | None = None) -> Known:
    return Known(name, rank, frozenset(f"s {f}" for f in said), frozenset(f"d {f}" for f in done), at)


def tasks(runs: Sequence[Known]) -> list[list[str]]:
    """The names of the runs of each task."""
    return _Likeness(runs).tasks()


class _Likeness:
    def __init__(self, runs: Sequence[Known]) -> None:
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
        clusters = self._clusters(label)
        root = self._succeeded(clusters, label)
        found: dict[int, list[str]] = defaultdict(list)
        for run, c in zip(self.runs, label, strict=True):
            found[root.get(c, c)].append(run.name)
        return list(found.values())

    def _succeeded(self, clusters: Mapping[int, _Cluster], label: Sequence[int]) -> dict[int, int]:
        """By a cluster that goes on where another one ends: the first of them."""
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

    def _side(self, said: Iterable[str], done: Iterable[str], did: bool) -> _Side:
        a = {f: self.weight[f] for f in said if f in self.weight}
        b = {f: self.weight[f] for f in done if f in self.weight}
        return _Side(a, b, sum(a.values()), sum(b.values()), did)

    def _uphill(self) -> list[int]:
        """Each run points to the densest of its neighbours and itself."""
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

    def _clusters(self, label: list[int]) -> dict[int, _Cluster]:
        """By the first of their runs, which becomes their label."""
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
            found[own[0]] = _Cluster(side, len(own), own[0])
            for i in own:
                label[i] = own[0]
        return found

    def _joined(self, clusters: Mapping[int, _Cluster]) -> dict[int, int]:
        """Each cluster joins the larger one that it is most like, if alike enough."""
        index = _index(clusters)
        size = {c: (one.runs, -c) for c, one in clusters.items()}
        root: dict[int, int] = {}
        for c in sorted(clusters, key=size.__getitem__, reverse=True):
            near = (d for d in _candidates(_probes(clusters[c].side), index) if size[d] > size[c])
            best = max(((_likeness(clusters[c].side, clusters[d].side), size[d], d) for d in near), default=None)
            root[c] = root[best[2]] if best is not None and best[0] >= _JOIN else c
        return root

    def _best(self, side: _Side, clusters: Mapping[int, _Cluster], index: Mapping[str, list[int]], own: int) -> int:
        near = _candidates(_probes(side), index)
        likes = ((round(_likeness(side, clusters[c].side), 6), clusters[c].runs, -c) for c in near)
        best = max(likes, default=None)
        return -best[2] if best is not None and best[0] >= _JOIN else own


def _weight(n: int, runs: int) -> float:
    """The logarithm of how rare it is, in quarters of either number: one run more changes few weights, and sums of
    quarters are exact in any order."""
    return max(_LEAST_WEIGHT, (floor(4 * log2(runs)) - floor(4 * log2(n))) / 4)


def _likeness(a: _Side, b: _Side) -> float:
    """Of what was said the weighted cosine, of what was done the weighted Jaccard index."""
    common = _common(a.done, b.done)
    if a.did and b.did and not common:
        return 0.0
    goal = _common(a.said, b.said) / sqrt(a.said_weight * b.said_weight) if a.said and b.said else 0.0
    if not common:
        return _GOAL * goal if a.did or b.did else goal
    return _GOAL * goal + (1 - _GOAL) * common / (a.done_weight + b.done_weight - common)


def _done_alike(a: _Side, b: _Side) -> float:
    common = _common(a.done, b.done)
    return common / (a.done_weight + b.done_weight - common) if common else 0.0


def _common(a: Weights, b: Weights) -> float:
    if len(a) > len(b):
        a, b = b, a
    return sum(weight for f, weight in a.items() if f in b)


def _probes(side: _Side) -> list[tuple[float, str]]:
    """The heaviest features of either kind, as far as they tell something beside the heaviest."""
    found = []
    for own in (side.said, side.done):
        top = nlargest(_PROBES, ((weight, f) for f, weight in own.items()))
        found += [each for each in top if each[0] >= _TELLING * top[0][0]]
    return found


def _candidates(probes: Sequence[tuple[float, str]], index: Mapping[str, list[int]]) -> list[int]:
    """Who shares most of the probes' weight."""
    shared: dict[int, float] = defaultdict(float)
    for weight, f in probes:
        for i in index.get(f, ()):
            shared[i] += weight
    return nsmallest(_CANDIDATES, shared, key=lambda i: (-shared[i], i))


def _index(clusters: Mapping[int, _Cluster]) -> dict[str, list[int]]:
    index: dict[str, list[int]] = defaultdict(list)
    for c, one in sorted(clusters.items(), key=lambda pair: (-pair[1].runs, pair[0])):
        for _, f in _probes(one.side):
            if len(index[f]) < _LISTED:
                index[f].append(c)
    return index
