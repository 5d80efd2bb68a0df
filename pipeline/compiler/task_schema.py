"""task_schema: the procedure that sessions with one intent have in common (HMX-A §4.1).

A segment says: its intent, the verbs that worked in order, what it checked and how it ended. Of all segments the
support and precedence miner makes steps. Nothing fails; without a common procedure there is no finding.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pipeline.compiler.confidence import Tally, outcomes, verdicts
from pipeline.compiler.mining import LEAST_STEPS, Mined, mine, share_with
from pipeline.compiler.model import ArtifactType, Extracted, Finding, Need
from pipeline.compiler.wording import actions_list, and_list, listed, most_frequent, percent, plural
from pipeline.contracts.artifact import Status
from pipeline.contracts.event_types import Role
from pipeline.contracts.evidence import Contribution, Segment, SegmentOutcome
from pipeline.contracts.pack import Section
from pipeline.segments.intent import goal_intent, goal_messages, goal_title, intent_key, verb_class
from pipeline.segments.masking import sentence, shorten
from pipeline.segments.naming import EDIT, mutates, phrase_of, silent, tool_of, words_of
from pipeline.segments.pairing import Action

NAME: Final = "task_schema"
_STEPS: Final = 64  # verbs of a segment that are kept; a procedure is its beginning
_STATES: Final = 4
_DRAFT_SUCCESSES: Final = 3
_ACTIVE_SUCCESSES: Final = 5
_ACTIVE_SESSIONS: Final = 2
_ACTIVE_BOUND: Final = 0.5
_MOST: Final = 0.8
_RARER: Final = 0.1
_RARE: Final = 0.3
_TITLE_STEPS: Final = 3
_COMPLEXITY: Final = ((4, "low"), (12, "medium"))


def extract(segment: Segment, outcome: SegmentOutcome, actions: Sequence[Action]) -> list[Extracted]:
    goal = goal_messages(segment.steps)
    said = goal_intent(goal)
    key = intent_key(said.classes, goal)
    done = [action for action in actions if action.verb and not silent(action.verb)]
    worked = [action for action in done if action.ok is not False]
    if not key or not worked:
        return []
    states = (step.text for step in segment.steps if step.role is Role.STATE and step.text)
    verdicts = [step.event_id for step in segment.steps if step.role is Role.FEEDBACK]
    return [
        Extracted(
            key=key,
            source_events=[m.event_id for m in goal] + [a.events[0] for a in worked[:_STEPS]] + verdicts[-1:],
            outcome=outcome,
            tags=list(said.classes),
            body={
                "goal": goal_title(goal),
                "phrases": list(said.phrases),
                "steps": _without_repeats([action.verb for action in worked])[:_STEPS],
                "actions": len(done),
                "passed": list(dict.fromkeys(a.verb for a in worked if a.role is Role.TEST and a.ok))[-_STATES:],
                "states": list(dict.fromkeys(shorten(text, 60) for text in states))[-_STATES:],
            },
        )
    ]


def _without_repeats(verbs: Sequence[str]) -> list[str]:
    return [verb for i, verb in enumerate(verbs) if i == 0 or verbs[i - 1] != verb]


def compile_(contributions: Sequence[Contribution]) -> Finding | None:
    good = [c for c in contributions if c.outcome is SegmentOutcome.SUCCESS]
    bad = [c for c in contributions if c.outcome is SegmentOutcome.FAILURE]
    if len(good) < _DRAFT_SUCCESSES:
        return None
    mined = mine([c.body["steps"] for c in good])
    if mined is None or not any(_telling(step.verb) for step in mined.steps):
        return None
    counts = outcomes(contributions)
    sessions = len({c.session_id for c in good})
    active = all(need.met for need in _needs(len(good), sessions, counts.bound, mined, contributions[0].tags))
    content = _content(mined, good, bad)
    return Finding(
        title=_title(contributions, mined),
        summary=_summary(content, counts),
        content=content,
        confidence=counts.bound,
        status=Status.ACTIVE if active else Status.DRAFT,
        success_rate=counts.rate,
        checked={
            "successes": len(good),
            "failures": len(bad),
            "sessions": sessions,
            "bound": counts.bound,
            "support": {step.verb: step.support for step in mined.steps},
            "order_agreement": mined.agreement,
            "rule": f"active: {_ACTIVE_SUCCESSES} successes, {_ACTIVE_SESSIONS} sessions, bound {_ACTIVE_BOUND}",
            "enough": active,
        },
        verdicts=verdicts(contributions),
    )


def needs(contributions: Sequence[Contribution]) -> list[Need]:
    good = [c for c in contributions if c.outcome is SegmentOutcome.SUCCESS]
    mined = mine([c.body["steps"] for c in good])
    sessions = len({c.session_id for c in good})
    return _needs(len(good), sessions, outcomes(contributions).bound, mined, contributions[0].tags)


def _needs(successes: int, sessions: int, bound: float, mined: Mined | None, wishes: Sequence[str]) -> list[Need]:
    steps = [step.verb for step in mined.steps] if mined is not None else []
    return [
        Need("successes", successes, _ACTIVE_SUCCESSES),
        Need("sessions with a success", sessions, _ACTIVE_SESSIONS),
        Need("bound of success over sessions", bound, _ACTIVE_BOUND),
        Need("steps that the runs have in common", len(steps), LEAST_STEPS),
        Need("steps but reading and editing files", sum(map(_telling, steps)), 1),
        Need("wishes that no step is named for", _unserved(wishes, steps), 0, at_most=True),
    ]


def _unserved(wishes: Sequence[str], steps: Sequence[str]) -> int:
    """Where steps are named for wishes at all: then a procedure for several has a step for each."""
    served = {verb_class(word) for step in steps for word in words_of(step)}
    verbs = {wish.split(".")[0] for wish in wishes}
    return len(verbs - served) if verbs & served else 0


def _telling(verb: str) -> bool:
    """Whether it says more of a task than that files were looked at and changed: `read`, `edit`."""
    return len(phrase_of(verb).split()) > 1 and verb != EDIT


def _content(mined: Mined, good: Sequence[Contribution], bad: Sequence[Contribution]) -> dict[str, Any]:
    verbs = [step.verb for step in mined.steps]
    steps = [
        {
            "order": order,
            "description": sentence(phrase_of(step.verb)),
            "tools_used": [tool_of(step.verb)],
            "optional": step.support < _MOST,
        }
        for order, step in enumerate(mined.steps, 1)
    ]
    return {
        "steps": steps,
        "preconditions": _preconditions(verbs, good, bad),
        "postconditions": _postconditions(mined, good),
        "tools_used": list(dict.fromkeys(tool_of(verb) for verb in verbs)),
        "estimated_complexity": complexity(good),
    }


def _preconditions(verbs: Sequence[str], good: Sequence[Contribution], bad: Sequence[Contribution]) -> list[str]:
    """Checks before the first change that successes nearly always made and failures made less often."""
    if not bad or not any(mutates(verb) for verb in verbs):
        return []
    checks = []
    for verb in verbs:
        if mutates(verb):
            continue
        before = share_with([_before_change(c.body["steps"]) for c in good], verb)
        failing = share_with([_before_change(c.body["steps"]) for c in bad], verb)
        if before >= _MOST and failing <= before - _RARER:
            checks.append(f"{sentence(phrase_of(verb))} before the first change")
    return checks


def _before_change(verbs: Sequence[str]) -> list[str]:
    return list(verbs[: next((i for i, verb in enumerate(verbs) if mutates(verb)), len(verbs))])


def _postconditions(mined: Mined, good: Sequence[Contribution]) -> list[str]:
    """What held at the end of at least four in five successes: changes made, tests passed, states reached."""
    passed = [c.body["passed"] for c in good]
    states = [c.body["states"] for c in good]
    changes = [s.verb for s in mined.steps if s.support >= _MOST and mutates(s.verb)]
    tests = sorted({verb for verbs in passed for verb in verbs if share_with(passed, verb) >= _MOST})
    reached = sorted({text for texts in states for text in texts if share_with(states, text) >= _MOST})
    return (
        [f"{sentence(phrase_of(verb))} has succeeded" for verb in changes if verb not in tests]
        + [f"{sentence(phrase_of(verb))} has passed" for verb in tests]
        + [f"State: {text}" for text in reached]
    )


def complexity(good: Sequence[Contribution]) -> str:
    """By the median number of actions."""
    median = sorted(c.body["actions"] for c in good)[len(good) // 2]
    return next((name for bound, name in _COMPLEXITY if median <= bound), "high")


def _title(contributions: Sequence[Contribution], mined: Mined) -> str:
    """The users' own words where most say the same, else what their intents have in common; where that is one word,
    with the steps that tell most."""
    goal, share = most_frequent(c.body["goal"] for c in contributions if c.body["goal"])
    if share > 0.5 or not any(c.body["phrases"] for c in contributions):
        return sentence(goal or "Procedure without a named goal")
    width = max(len(c.body["phrases"]) for c in contributions)
    places: list[Counter[str]] = [Counter() for _ in range(width)]
    for c in contributions:
        for tag, phrase in sorted(zip(c.tags, c.body["phrases"], strict=True)):
            places[sorted(c.tags).index(tag)][phrase] += 1
    title = sentence(and_list([_surface(place) for place in places]))
    if " " in title:
        return title
    firm = [step for step in mined.steps if step.support >= _MOST]
    steps = firm if any(_telling(step.verb) for step in firm) else mined.steps
    told = [step.verb for step in steps if _telling(step.verb)]
    phrases = [phrase_of(verb) for verb in [v for v in told if mutates(v)] or told]
    said = next((phrase for phrase in phrases if phrase.split()[0] == title.lower()), "")
    edits = f"{phrase_of(EDIT)}, then " if any(step.verb == EDIT for step in steps) else ""
    return sentence(said) or f"{title}: {edits}{actions_list(phrases[:_TITLE_STEPS])}"


def _surface(forms: Counter[str]) -> str:
    """The most frequent form; one that names its object goes before one that does not, unless it is rare."""
    form = most_frequent(forms.elements())[0]
    telling = most_frequent(f for f in forms.elements() if " " in f)[0]
    return telling if telling and forms[telling] >= _RARE * forms.total() else form


def _summary(content: dict[str, Any], counts: Tally) -> str:
    names = [
        str(step["description"])[:1].lower() + str(step["description"])[1:]
        for step in content["steps"]
        if not step["optional"]
    ]
    names = names or [str(step["description"]).lower() for step in content["steps"]]
    shown = ", then ".join(names[:5]) + (f" and {plural(len(names) - 5, 'more step')}" if len(names) > 5 else "")
    known = f"{plural(counts.successes, 'success', 'successes')} in {plural(counts.sessions, 'session')}"
    return f"{sentence(shown)}. {known} with a known outcome ({percent(counts.successes, counts.sessions)})."


def lines(content: Mapping[str, Any]) -> Iterator[str]:
    """What a pack shows of it."""
    yield from listed("Before", content.get("preconditions", ()))
    for step in content.get("steps", ()):
        tools = [tool for tool in step.get("tools_used", ()) if tool not in step["description"]]
        optional = "(optional) " if step.get("optional") else ""
        yield f"{step['order']}. {optional}{step['description']}" + (f" ({', '.join(tools)})" if tools else "")
    yield from listed("Done when", content.get("postconditions", ()))


TYPE: Final = ArtifactType(NAME, extract, compile_, Section.PROCEDURES, lines, needs)
