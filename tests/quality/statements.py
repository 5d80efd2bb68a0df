"""Which sentences lay down a rule, which say how things are: in other people's words, of repositories never seen.

Enters: the open rulebook of HMX_DATA, the folder that HMX_STATEMENTS names (see `train_statements`), and what users
say in the real sessions. Repositories are dealt into folds; the sentences of a fold are judged by weights that were
learnt without it, each alone as one message of a user and once more between two others. Rules are judged as claims are
read; facts as claims are read, and by the classifier alone. What users of chats say is judged by the shipped weights,
which have learnt from none of these sessions; beside it is the share that stands as a rule once the session's actions
are read too. Of corrections the share is told that a reader found to say what to do (`corrections_read.txt`); what
nobody has read counts as not.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple, cast
from unittest.mock import patch

from hmx_pipeline.compiler.knowledge import classifier
from hmx_pipeline.compiler.knowledge.claims import Claim, claims
from hmx_pipeline.contracts.knowledge import Memory
from tests.quality.corrections import says_what_to_do
from tests.quality.figures import Bar, Case, Figure, mean
from tests.quality.sessions import Sessions
from tests.quality.train_statements import (
    CHAT,
    CHATS,
    Example,
    Said,
    chats,
    even,
    extra_folder,
    further,
    learn,
    rulebook,
    sample,
)

_TASK: Final = "statements"
_FOLDS: Final = 5
_OWN: Final = "own"
"""What was written for the corpus is learnt from, and not judged."""
_BESIDE: Final = ("Thanks, that looks good.", "The build took nine minutes.")
_RECALL: Final = {True: Bar(least=0.65), False: Bar(least=0.5)}
"""Of rules, in English and elsewhere."""
_PRECISION: Final = Bar(least=0.9)
_FACTS: Final = (Bar(least=0.4), Bar(least=0.8))
_FACT: Final = 0
"""A sentence that scores as much is taken for a fact where the classifier is asked alone."""
_ALARMS: Final = Bar(most=0.01)
_read = cast("Callable[[str, str], tuple[Claim, ...]]", cast("Any", claims).__wrapped__)
"""Not as remembered: the weights change."""


class _Judged(NamedTuple):
    example: Example
    rule: bool
    among: bool
    """Told as a rule where it stands between others."""
    fact: bool
    scored: bool
    """The classifier alone takes it for a fact."""


def task(sessions: Sessions) -> Iterator[Figure]:
    more = extra_folder()
    opened = rulebook(sessions.folder)
    talk = [*chats(sessions.folder, (*CHATS, "locomo"))]
    judged = _judged([*opened, *(further(more) if more is not None else ())], talk)
    texts = {one.text for one in opened}
    yield from _figures("rulebook", [one for one in judged if one.example.text in texts])
    if more is not None:
        yield from _figures("all", judged)
    yield from _of_chats([one for one in talk if not one.learnt])
    yield _served(sessions, [one for one in talk if one.chat in CHATS and not one.learnt])
    yield _of_corrections(sessions)


def _judged(read: Sequence[Example], talk: Sequence[Said]) -> list[_Judged]:
    requests = [sample(Example(one.text, "neither", "en", "", CHAT)) for one in talk if one.learnt]
    samples = [(example, sample(example)) for example in sorted(read)]
    found: list[_Judged] = []
    for fold in range(_FOLDS):
        learnt = [*(one for example, one in samples if _fold(example) != fold), *requests]
        weights = learn(learnt, "rule"), learn(learnt, "fact")
        with patch.object(classifier, "weights", lambda weights=weights: weights):
            found += [_judge(example) for example, _ in samples if _fold(example) == fold and example.weight == 1.0]
    return found


def _fold(example: Example) -> int:
    return _FOLDS if example.repo == _OWN else int(sha256(example.repo.encode()).hexdigest(), 16) % _FOLDS


def _judge(example: Example) -> _Judged:
    alone = _read(example.text, "user")
    ended = example.text if example.text[-1] in ".!?。！？" else f"{example.text}."
    between = _read(f"{_BESIDE[0]} {ended} {_BESIDE[1]}", "user")
    return _Judged(
        example,
        _ruled(alone),
        _ruled(between),
        any(one.memory is not Memory.POLICY for one in alone),
        classifier.scores(example.text).fact >= _FACT,
    )


def _ruled(found: Sequence[Claim]) -> bool:
    return any(one.memory is Memory.POLICY for one in found)


def _figures(of: str, judged: Sequence[_Judged]) -> Iterator[Figure]:
    for lang in sorted({one.example.lang for one in judged}):
        rules = [one for one in judged if one.example.lang == lang and one.example.kind == "rule"]
        bar = _RECALL[lang == "en"]
        yield _mean(of, f"rules {lang}", rules, lambda one: one.rule, bar)
        yield _mean(of, f"rules {lang}, between others", rules, lambda one: one.among, bar)
    for where, those in (
        ("en", [one for one in judged if one.example.lang == "en"]),
        ("elsewhere", [one for one in judged if one.example.lang != "en"]),
    ):
        bars = _PRECISION if where == "en" else None
        for how, told in (("", lambda one: one.rule), (", between others", lambda one: one.among)):
            named = [one for one in those if told(one)]
            yield _mean(of, f"rules {where}: precision{how}", named, lambda one: one.example.kind == "rule", bars)
    for how, told, fact_bars in (
        ("facts", lambda one: one.fact, _FACTS),
        ("facts by score", lambda one: one.scored, (None, None)),
    ):
        facts = [one for one in judged if one.example.kind == "fact"]
        yield _mean(of, how, facts, told, fact_bars[0])
        named = [one for one in judged if told(one)]
        yield _mean(of, f"{how}: precision", named, lambda one: one.example.kind == "fact", fact_bars[1])


def _mean(of: str, what: str, those: Sequence[_Judged], right: Callable[[_Judged], bool], bar: Bar | None) -> Figure:
    cases = [Case(one.example.repo, float(right(one))) for one in those] or [Case("", 0.0)]
    return mean(_TASK, of, what, cases, bar, f"n = {len(those)}")


def _of_chats(talk: Sequence[Said]) -> Iterator[Figure]:
    cases = [(one.chat, Case(one.text, float(_ruled(_read(one.text, "user"))))) for one in talk]
    for chat in sorted({chat for chat, _ in cases}):
        those = [case for name, case in cases if name == chat]
        yield mean(_TASK, chat, "told as rules", those, _ALARMS, f"n = {len(those)}")
    yield mean(_TASK, "chats", "told as rules", [case for _, case in cases], _ALARMS, f"n = {len(cases)}")


def _served(sessions: Sessions, talk: Sequence[Said]) -> Figure:
    """The same with the actions around each sentence, which show what was for its own request only: what stands."""
    stand = [
        Case(one.session_id, 1.0)
        for name in CHATS
        for one in sessions.of(name).of_kind("policy")
        if not even(one.session_id) and not one.body["passes"]
    ]
    others = [Case(one.text, 0.0) for one in talk[len(stand) :]]
    return mean(_TASK, "chats", "stand as rules", [*stand, *others], _ALARMS, f"n = {len(talk)}")


def _of_corrections(sessions: Sessions) -> Figure:
    kept = sorted(
        {
            said["text"]
            for name in CHATS
            for one in sessions.of(name).contributions
            if one.pattern_type == "correction"
            for said in one.body["said"]
        }
    )
    cases = [Case(text, float(says_what_to_do(text))) for text in kept]
    return mean(_TASK, "corrections", "say what to do", cases or [Case("", 0.0)], None, f"n = {len(kept)}")
