"""decision_policy artifacts: which option to choose at a recurring question, and why (HMX-A §4.3).

Input of `extract`: a segment and its outcome. Output: a contribution for each of its first eight questions. Input of
`compile`: all contributions on one question. Output: a `Finding`, or None. The key is that of the question. A segment
contributes what was chosen, what was offered and how it turned out. Options are compared by their Wilson bound over
sessions, never by the raw rate or by how sure the agent was. A question with fewer than three decisions of known
outcome gives no finding.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from hmx_pipeline.compiler.artifact_text import listed, most_frequent, plural
from hmx_pipeline.compiler.association import by_chance
from hmx_pipeline.compiler.confidence import Tally, Verdict, contradicted, recent, tally
from hmx_pipeline.compiler.evidence_kind import ArtifactType, Extracted, Finding, Need
from hmx_pipeline.compiler.mining import share_with
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Contribution, Segment, SegmentOutcome
from hmx_pipeline.contracts.options import Section, Status
from hmx_pipeline.segments.decision_outcomes import Consequence, consequences
from hmx_pipeline.segments.intent import goal_intent, goal_messages, option_key, question_key
from hmx_pipeline.segments.lexicon import CHOOSING
from hmx_pipeline.segments.masking import mask_ids, readable, sentence, shorten
from hmx_pipeline.segments.pairing import Action

_DECISION = Role.DECISION  # enum lookups are ten times slower
NAME: Final = "decision_policy"
_QUESTIONS: Final = 8  # questions kept of a segment: the first
_TIMES: Final = 16  # decisions kept of one question in a segment: the first
_OFFERED: Final = 12
_OPTION: Final = 80
_QUESTION: Final = 160
_LEAST: Final = 3
_ACTIVE_BOUND: Final = 0.5
_BY_CHANCE: Final = 0.05
_MOST: Final = 0.8
_OUTCOMES: Final = 12
_ALTERNATIVES: Final = 16


def extract(segment: Segment, outcome: SegmentOutcome, _: Sequence[Action]) -> list[Extracted]:
    decided = [place for place, step in enumerate(segment.steps) if step.role is _DECISION]
    if not decided:
        return []
    asked: dict[str, list[int]] = {}
    for place in decided:
        step = segment.steps[place]
        key = question_key(step.name)
        if key and option_key(step.text) and (key in asked or len(asked) < _QUESTIONS):
            asked.setdefault(key, []).append(place)
    until = {
        place: after
        for places in asked.values()
        for place, after in zip(places, [*places[1:], len(segment.steps)], strict=True)
    }
    turned = consequences(segment.steps, until, outcome)
    wishes = [name.replace(".", " ") for name in goal_intent(goal_messages(segment.steps)).classes]
    return [_extracted(key, segment, places[:_TIMES], turned, wishes) for key, places in asked.items()]


def _extracted(
    key: str, segment: Segment, places: Sequence[int], turned: Mapping[int, Consequence], wishes: list[str]
) -> Extracted:
    steps = [segment.steps[place] for place in places]
    ends = [turned[place] for place in places]
    known = [end.ok for end in ends if end.ok is not None]
    offered = {option_key(option): option for step in steps for option in step.values}
    return Extracted(
        key=key,
        source_events=list(
            dict.fromkeys(e for s, end in zip(steps, ends, strict=True) for e in (s.event_id, end.event_id) if e)
        ),
        outcome=_outcome(known),
        tags=list(dict.fromkeys([*wishes, *(tag for step in steps for tag in step.tags)])),
        body={
            "question": readable(mask_ids(" ".join(steps[0].name.split())), _QUESTION),
            "taken": [
                [shorten(" ".join(step.text.split()), _OPTION), end.ok, end.told]
                for step, end in zip(steps, ends, strict=True)
            ],
            "offered": [option for name, option in offered.items() if name][:_OFFERED],
        },
    )


def _outcome(known: Sequence[bool]) -> SegmentOutcome:
    if not known:
        return SegmentOutcome.UNKNOWN
    return SegmentOutcome.SUCCESS if known[-1] else SegmentOutcome.FAILURE


class _Choice(NamedTuple):
    option: str
    surface: str
    ok: bool | None
    told: str
    of: Contribution


class _Option(NamedTuple):
    key: str
    surface: str
    chosen: int
    good: int
    bad: int
    counts: Tally
    """Counts over sessions; if the option has stopped working, over the last ones only."""
    verdicts: list[Verdict]
    told: str
    """Its most frequent outcome, in words."""

    @property
    def rate(self) -> float:
        known = self.good + self.bad
        return round(self.good / known, 4) if known else 0.0

    @property
    def record(self) -> str:
        known = self.good + self.bad
        if not self.chosen:
            return "never chosen"
        return f"worked {self.good} of {plural(known, 'time')}" if known else "no outcome known"


def compile_(contributions: Sequence[Contribution]) -> Finding | None:
    choices = _choices(contributions)
    if sum(choice.ok is not None for choice in choices) < _LEAST:
        return None
    options = _options(choices, [o for c in contributions for o in c.body["offered"]])
    best, runner_up, chance = _compared(options)
    active = best.counts.bound > runner_up and all(need.met for need in _needs(best, runner_up, chance))
    question = most_frequent(c.body["question"] for c in contributions if c.body["question"])[0]
    question = sentence(question.rstrip(" ?:.")) or "Decision without a readable question"
    return Finding(
        title=shorten(question, 120),
        summary=_summary(best, options[1:]),
        content={
            "condition": f"{question}?",
            "recommendation": _advice(best.surface),
            "alternatives": [_alternative(option) for option in options[:_ALTERNATIVES]],
            "outcomes": _outcomes(choices),
            "scope": _scope(contributions),
        },
        confidence=best.counts.bound,
        status=Status.ACTIVE if active else Status.DRAFT,
        success_rate=best.counts.rate,
        checked={
            "decisions": len(choices),
            "sessions": best.counts.sessions,
            "successes": best.counts.successes,
            "bound": best.counts.bound,
            "runner_up": runner_up,
            "by_chance": chance,
            "rule": f"active: {_LEAST} sessions, bound {_ACTIVE_BOUND} and above the runner-up's rate, "
            f"better than the rest by chance in at most {_BY_CHANCE}",
            "enough": active,
        },
        verdicts=best.verdicts,
    )


def _choices(contributions: Sequence[Contribution]) -> list[_Choice]:
    return [
        _Choice(option_key(surface), surface, ok, told, c)
        for c in contributions
        for surface, ok, told in c.body["taken"]
    ]


def _compared(options: Sequence[_Option]) -> tuple[_Option, float, float]:
    """Return the best option, the highest rate of the others, and the p-value of the difference."""
    best, others = options[0], [option for option in options[1:] if option.counts.sessions]
    return best, max((option.counts.rate or 0.0 for option in others), default=0.0), _chance(best, others)


def needs(contributions: Sequence[Contribution]) -> list[Need]:
    return _needs(*_compared(_options(_choices(contributions), [])))


def _needs(best: _Option, runner_up: float, chance: float) -> list[Need]:
    return [
        Need("sessions in which the best option was chosen", best.counts.sessions, _LEAST),
        Need("bound of the best option", best.counts.bound, _ACTIVE_BOUND),
        Need("the same, above the rate of the others", best.counts.bound, runner_up),
        Need("likelihood that chance makes the difference", chance, _BY_CHANCE, at_most=True),
    ]


def _options(choices: Sequence[_Choice], offered: Sequence[str]) -> list[_Option]:
    """Sort the options: by bound, then successes; those never chosen last."""
    taken: dict[str, list[_Choice]] = {}
    for choice in choices:
        taken.setdefault(choice.option, []).append(choice)
    surfaces: dict[str, list[str]] = {key: [choice.surface for choice in own] for key, own in taken.items()}
    for surface in offered:
        surfaces.setdefault(option_key(surface), []).append(surface)
    options = []
    for key, forms in surfaces.items():
        own = taken.get(key, [])
        good, bad = (sum(choice.ok is value for choice in own) for value in (True, False))
        mostly = good >= bad
        verdicts = [(choice.of.session_id, choice.ok) for choice in own if choice.ok is not None]
        options.append(
            _Option(
                key,
                most_frequent(forms)[0],
                len(own),
                good,
                bad,
                _judged(verdicts),
                verdicts,
                most_frequent(choice.told for choice in own if choice.ok is mostly and choice.told)[0],
            )
        )
    return sorted(options, key=lambda o: (-o.counts.bound, -o.counts.successes, o.bad, -o.chosen, o.key))


def _judged(verdicts: Sequence[Verdict]) -> Tally:
    """Count the last sessions only, if they contradict the option and are significantly worse than those before."""
    whole, lately = tally(verdicts), recent(verdicts)
    good, sessions = whole.successes - lately.successes, whole.sessions - lately.sessions
    turned = sessions > 0 and contradicted(lately) and by_chance(good, sessions, *lately) <= _BY_CHANCE
    return lately if turned else whole


def _chance(best: _Option, others: Sequence[_Option]) -> float:
    """Return the p-value of the best option against the rest, corrected for the number of options (Bonferroni). 0
    without others."""
    if not others:
        return 0.0
    good, sessions = (sum(option.counts[i] for option in others) for i in (0, 1))
    return round(min(1.0, (1 + len(others)) * by_chance(*best.counts, good, sessions)), 6)


def _advice(surface: str) -> str:
    return sentence(surface) if surface.split(maxsplit=1)[0].casefold() in CHOOSING else f"Choose {surface}"


def _summary(best: _Option, others: Sequence[_Option]) -> str:
    told = [f"{_advice(best.surface)}: {best.record}."]
    rest = [f"{option.surface} {option.record}" for option in others[:3] if option.chosen]
    if rest:
        told.append(f"{sentence('; '.join(rest))}.")
    return " ".join(told)


def _alternative(option: _Option) -> dict[str, Any]:
    return {
        "description": option.surface,
        "outcome": sentence(option.record) + (f"; mostly: {option.told}" if option.told else ""),
        "chosen_count": option.chosen,
        "success_rate": option.rate,
    }


def _outcomes(choices: Sequence[_Choice]) -> list[dict[str, Any]]:
    """Return the newest decisions with a known outcome."""
    return [
        {
            "decision": choice.surface,
            "outcome": choice.told or ("it worked" if choice.ok else "it did not work"),
            "positive": choice.ok,
            "source_memory_id": choice.of.contribution_id,
        }
        for choice in [choice for choice in choices if choice.ok is not None][-_OUTCOMES:]
    ]


def _scope(contributions: Sequence[Contribution]) -> list[str]:
    """Return the intents and tags that nearly all decisions share."""
    tags = [c.tags for c in contributions]
    counts = Counter(tag for own in tags for tag in own)
    return sorted(tag for tag in counts if share_with(tags, tag) >= _MOST)


def lines(content: Mapping[str, Any]) -> Iterator[str]:
    if content.get("recommendation"):
        yield content["recommendation"]
    tried = [option for option in content.get("alternatives", ()) if option.get("chosen_count")]
    yield from listed("Tried", [f"{option['description']} ({option['outcome']})" for option in tried])
    yield from listed("Holds for", content.get("scope", ()))


TYPE: Final = ArtifactType(NAME, extract, compile_, Section.CONSTRAINTS, "decisions", lines, needs)
