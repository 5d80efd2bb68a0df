"""Behavioral patterns: how often each tool, error and decision occurred, over an agent's or tenant's segments.

Input: contributions of the kind `conduct`. Output: sums, so their order does not matter.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from hmx_pipeline.compiler.usage_counts import REST
from hmx_pipeline.contracts.fingerprint import BehavioralPatterns, Use
from hmx_pipeline.fingerprints.bounded_counts import folded, kept, share
from hmx_pipeline.fingerprints.contents import SHARED, UsageCounts


def behavioral_patterns(
    conduct: Iterable[UsageCounts], counted: float, named: int, questions: int
) -> BehavioralPatterns:
    """Add up usage counts. `counted`: the share of all segments in the sample, 0 to 1; `named`: how many tools and
    error classes keep their names; `questions`: how many questions are counted, and options of each."""
    known = [c for c in conduct if not c.withdrawn]
    alone = _of_one_subject(known)
    tools = _added((REST if verb in alone else verb, counts) for c in known for verb, counts in c.body.tools.items())
    errors: Counter[str] = Counter()
    for c in known:
        errors.update({name: n for name, n in c.body.errors.items() if name not in alone})
        errors[REST] += sum(n for name, n in c.body.errors.items() if name in alone)
    names = kept({verb: counts[0] for verb, counts in tools.items()}, named)
    used = _added((verb if verb in names else REST, counts) for verb, counts in tools.items())
    calls, succeeded, failed = (sum(counts[i] for counts in tools.values()) for i in range(3))
    return BehavioralPatterns(
        sessions=len({c.session_id for c in known}),
        segments=len(known),
        outcomes=dict(sorted(Counter(c.outcome for c in known).items())),
        calls=calls,
        error_rate=share(failed, succeeded + failed),
        tools={name: _use(used[name], calls) for name in sorted(used)},
        errors=folded(errors, named),
        decisions=_decisions(known, questions),
        of_about=round(len(known) / counted) if counted < 1 else None,
    )


def _of_one_subject(known: Iterable[UsageCounts]) -> set[str]:
    """Return the names of tools and errors that a single subject alone has: they may tell of that person."""
    whose: dict[str, set[str]] = defaultdict(set)
    for c in known:
        for name in (*c.body.tools, *c.body.errors):
            whose[name].add(c.subject)
    return {name for name, subjects in whose.items() if len(subjects) < SHARED and "" not in subjects}


def _added(counts: Iterable[tuple[str, Sequence[int]]]) -> dict[str, Sequence[int]]:
    """Add up calls, successes and failures by name."""
    sums: dict[str, Sequence[int]] = {}
    for name, own in counts:
        sums[name] = [a + b for a, b in zip(sums.get(name, (0, 0, 0)), own, strict=True)]
    return sums


def _use(counts: Sequence[int], calls: int) -> Use:
    own, succeeded, failed = counts
    return Use(
        calls=own,
        succeeded=succeeded,
        failed=failed,
        frequency=share(own, calls) or 0.0,
        error_rate=share(failed, succeeded + failed),
    )


def _decisions(known: Iterable[UsageCounts], bound: int) -> dict[str, dict[str, int]]:
    """Count decisions. Questions and options are free text, so those of only one session get no name."""
    chosen: dict[str, Counter[str]] = defaultdict(Counter)
    asked: dict[str, set[str]] = defaultdict(set)
    by: dict[tuple[str, str], set[str]] = defaultdict(set)
    for c in known:
        for question, options in c.body.decisions.items():
            chosen[question].update(options)
            asked[question].add(c.whose)
            for option in options:
                by[question, option].add(c.whose)
    often = {question: own.total() for question, own in chosen.items() if len(asked[question]) >= SHARED}
    decisions = {}
    for question in sorted(kept(often, bound)):
        own = chosen[question]
        shared = {option: n for option, n in own.items() if len(by[question, option]) >= SHARED}
        decisions[question] = folded(own, bound, kept(shared, bound))
    return decisions
