"""Prediction of the files that a request will touch.

Input: contributions of the kind `touched`, and a request. Output: files with scores, best first; the order of the
contributions does not matter. A file is known by the goals of the sessions that changed it, the identifiers seen in it,
its path, and when each agent changed it. Each feature is divided by its maximum and weighted. The best directories, and
files that were changed together with the best files, gain. Files that only the request names are likely too.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import log, sqrt
from posixpath import basename
from typing import Final, NamedTuple

from hmx_pipeline.advice.ranking import Ranking
from hmx_pipeline.advice.unseen_files import Layout
from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.segments.file_paths import dotted_names, files_in, identifiers, name_parts
from hmx_pipeline.segments.intent import plain_stems, stem

_GOALS: Final = 0.5
_DOCUMENT: Final = 0.5
_PATH_TWICE: Final = 2
_LITTLE_BY_LENGTH: Final = 0.4
_ENDS_ALIKE: Final = 0.7  # for the last two parts of a path, or a dotted module
_NAMED_ALONE: Final = 1.75  # a file that no session has seen has only its name as evidence
_RECENT_HALF: Final = 3  # sessions of the agent after which recency is halved
_RECENT: Final = 20
_AGAIN_SESSIONS: Final = 6
_AGAIN_BEFORE: Final = 3
_BEST: Final = 5
_DIRECTORY: Final = 0.15
_TOGETHER: Final = 0.1
_TOGETHER_FILES: Final = range(2, 26)
_NAMES_SESSION_FILES: Final = 8  # if a session changed more files, its identifiers say nothing about any one of them
_OUTSIDE: Final = ("/", "~", "..")
_WORD: Final = re.compile(r"\b[A-Za-z]\w{3,}\b")
_MODULE: Final = re.compile(r"(?:/__init__)?\.\w+$")

Scores = Mapping[str, float]


class Likely(NamedTuple):
    path: str
    score: float


class SessionFiles(NamedTuple):
    agent_id: str
    last_at: int
    session_id: str
    goal: list[str]
    """Stems of the goal."""
    names: set[str]
    """Identifiers that the user wrote."""
    changed: list[str]
    seen: list[str]
    held: dict[str, set[str]]


def sessions(touched: Iterable[Contribution]) -> list[SessionFiles]:
    """Join the segments of each session, sorted by time; make paths relative to the workspace if its root is known."""
    segments: defaultdict[str, list[Contribution]] = defaultdict(list)
    for contribution in touched:
        segments[contribution.session_id].append(contribution)
    found = [_session(sorted(of, key=lambda c: (c.first_at, c.contribution_id))) for of in segments.values()]
    roots = _roots(found)
    return sorted((_relative(session, roots) for session in found), key=lambda s: (s.last_at, s.session_id))


def _session(segments: Sequence[Contribution]) -> SessionFiles:
    held: defaultdict[str, set[str]] = defaultdict(set)
    for segment in segments:
        for path, names in segment.body["held"].items():
            held[path].update(names)
    return SessionFiles(
        segments[0].agent_id,
        max(c.last_at for c in segments),
        segments[0].session_id,
        [word for c in segments for word in c.body["goal"]],
        {name for c in segments for name in c.body["names"]},
        list(dict.fromkeys(path for c in segments for path in c.body["changed"])),
        list(dict.fromkeys(path for c in segments for path in c.body["seen"])),
        held,
    )


def _roots(found: Iterable[SessionFiles]) -> list[str]:
    """Return the workspace roots, deepest first: the prefixes of absolute paths that other sessions name relatively."""
    found = list(found)
    relative: defaultdict[str, set[str]] = defaultdict(set)
    for session in found:
        for path in session.changed:
            if not path.startswith(_OUTSIDE):
                relative[basename(path)].add(path)
    roots = {
        path.removesuffix(known)
        for session in found
        for path in [*session.seen, *session.changed]
        if path.startswith("/")
        for known in relative[basename(path)]
        if path.endswith(f"/{known}")
    }
    return sorted(roots, key=lambda root: (-len(root), root))


def _relative(session: SessionFiles, roots: Sequence[str]) -> SessionFiles:
    held: defaultdict[str, set[str]] = defaultdict(set)
    for path, names in session.held.items():
        held[_below(path, roots)] |= names
    changed = list(dict.fromkeys(_below(path, roots) for path in session.changed))
    seen = list(dict.fromkeys(_below(path, roots) for path in session.seen))
    inside = [path for path in seen if "/" in path and not path.startswith(_OUTSIDE)]
    return session._replace(changed=changed, seen=inside, held=held)


def _below(path: str, roots: Sequence[str]) -> str:
    return next((path.removeprefix(root) for root in roots if path.startswith(root)), path)


def _directory(path: str) -> str:
    return path.rpartition("/")[0]


@remembered(8 * MB)
def _name_words(name: str) -> tuple[str, ...]:
    """Return the stems of the parts of a path or identifier. Cached, because the same names recur often."""
    return tuple(stem(part) for part in name_parts(name))


def _asked(request: str) -> tuple[list[str], tuple[str, ...]]:
    """Return the request's stems (with the parts of its identifiers), and its identifiers."""
    code = identifiers(request)
    return [*plain_stems(request), *(word for name in code for word in _name_words(name))], code


class Files:
    """An index of the files that `sessions` have touched. With a request, it indexes only the words of that request."""

    def __init__(self, known: Sequence[SessionFiles], request: str | None = None) -> None:
        asked = None if request is None else frozenset(_asked(request)[0])
        self.known = known
        self.changed_by: defaultdict[str, list[SessionFiles]] = defaultdict(list)
        self.held: defaultdict[str, set[str]] = defaultdict(set)
        for session in known:
            for path in session.changed:
                self.changed_by[path].append(session)
                if len(session.changed) <= _NAMES_SESSION_FILES:
                    self.held[path] |= session.names
            for path, names in session.held.items():
                self.held[path] |= names
        self.files = sorted(self.changed_by.keys() | {path for session in known for path in session.seen})
        self._place = {path: place for place, path in enumerate(self.files)}
        self._goals = Ranking([session.goal for session in known], asked=asked)
        self._paths = Ranking([_name_words(path) for path in self.files], asked=asked)
        self._documents = Ranking([self._document(path) for path in self.files], _LITTLE_BY_LENGTH, asked)
        self._holding = Counter(name for path in self.files for name in self.held.get(path, ()))
        self._names = Counter(map(basename, self.files))
        self._layout = Layout(self.files, {path: len(by) for path, by in self.changed_by.items()})

    def _document(self, path: str) -> list[str]:
        goals = [word for session in self.changed_by.get(path, ()) for word in session.goal]
        names = [word for name in sorted(self.held.get(path, ())) for word in _name_words(name)]
        return [*goals, *names, *(_PATH_TWICE * _name_words(path))]

    def likely(self, request: str, agent_id: str = "") -> list[Likely]:
        """Rank the files, ties by path. If no file is known, only those that the request names are ranked."""
        words, code = _asked(request)
        scores: defaultdict[str, float] = defaultdict(float)
        weighted = (
            (_GOALS, _to_one(self._by_goals(words))),
            (_DOCUMENT, _to_one(dict(zip(self.files, self._documents.scores(words), strict=True)))),
            (1.0, _to_one(dict(zip(self.files, self._paths.scores(words), strict=True)))),
            (1.0, _to_one(self._by_identifiers({*code, *_WORD.findall(request)}))),
            (1.0, self._named(request)),
            (self._again(agent_id), _to_one(self._recent(agent_id))),
        )
        for weight, feature in weighted:
            for path, score in feature.items():
                scores[path] += weight * score
        scores |= {path: _NAMED_ALONE * surely for path, surely in self._layout.unmet(request).items()}
        ranked = [Likely(path, round(score, 6)) for path, score in self._raised(scores).items() if score > 0]
        return sorted(ranked, key=lambda file: (-file.score, file.path))

    def _by_goals(self, words: Sequence[str]) -> Scores:
        """Score files by how similar the goals of the sessions are that changed them. A session's vote is divided by
        the square root of the number of files it changed."""
        scores: defaultdict[str, float] = defaultdict(float)
        for session, score in zip(self.known, self._goals.scores(words), strict=True):
            for path in session.changed:
                scores[path] += score * score / sqrt(len(session.changed))
        return scores

    def _by_identifiers(self, asked: set[str]) -> Scores:
        return {
            path: sum(log(1 + len(self.files) / self._holding[name]) for name in sorted(asked & held))
            for path, held in self.held.items()
            if path in self._place and not asked.isdisjoint(held)
        }

    def _named(self, request: str) -> Scores:
        """Score the files that the request names, in full or by their last parts."""
        paths = [f"/{path}" for path in files_in(request)]
        modules = dotted_names(request)
        scores = {}
        for path in self.files if paths or modules else ():
            score = self._how_named(path, paths, modules)
            if score:
                scores[path] = score
        return scores

    def _how_named(self, path: str, paths: Sequence[str], modules: Sequence[str]) -> float:
        name, end = basename(path), "/".join(path.split("/")[-2:])
        if any(said.endswith(f"/{path}") for said in paths):
            return 1.0 if "/" in path else 1 / sqrt(self._names[name])
        module = _MODULE.sub("", path).replace("/", ".")
        if "/" in end and any(said.endswith(f"/{end}") for said in paths):
            return _ENDS_ALIKE
        if "." in module and any(said == module or said.startswith(f"{module}.") for said in modules):
            return _ENDS_ALIKE
        return 1 / sqrt(self._names[name]) if any(basename(said) == name for said in paths) else 0.0

    def _own(self, agent_id: str) -> list[list[str]]:
        """Return the files that each of the agent's sessions changed, newest session first."""
        return [s.changed for s in reversed(self.known) if s.agent_id == agent_id and s.changed][:_RECENT]

    def _recent(self, agent_id: str) -> Scores:
        scores: defaultdict[str, float] = defaultdict(float)
        for ago, changed in enumerate(self._own(agent_id)):
            for path in changed:
                scores[path] += 0.5 ** (ago / _RECENT_HALF)
        return scores

    def _again(self, agent_id: str) -> float:
        """Weigh recency by how often this agent returns to its files: 4 × the share of files that it had changed
        shortly before, at most 1.5."""
        own = self._own(agent_id)
        total = again = 0
        for ago, changed in enumerate(own[:_AGAIN_SESSIONS]):
            before = {path for earlier in own[ago + 1 : ago + 1 + _AGAIN_BEFORE] for path in earlier}
            total += len(changed)
            again += len(before.intersection(changed))
        return min(1.5, 4 * again / total) if total else 0.0

    def _raised(self, scores: Scores) -> Scores:
        """Add what the five best files lend to their directories and to files that were changed together with them."""
        best = sorted(scores, key=lambda path: (-round(scores[path], 9), path))[:_BEST]
        directories: dict[str, float] = {}
        for path in best:
            directories.setdefault(_directory(path), scores[path])
        raised = defaultdict(
            float,
            {
                path: scores.get(path, 0.0) + _DIRECTORY * directories.get(_directory(path), 0.0)
                for path in self._place.keys() | scores.keys()
            },
        )
        for path in best:
            for session in self.changed_by.get(path, ()):
                if len(session.changed) in _TOGETHER_FILES:
                    for other in session.changed:
                        if other != path:
                            raised[other] += _TOGETHER / sqrt(len(session.changed) - 1)
        return raised


def _to_one(scores: Scores) -> Scores:
    highest = max(scores.values(), default=0.0)
    return {path: score / highest for path, score in scores.items()} if highest > 0 else {}
