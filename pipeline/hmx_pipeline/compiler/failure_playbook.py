"""failure_playbook artifacts: one kind of failure, and what helped against it (HMX-A §4.2).

Input of `extract`: a segment, its outcome and its actions. Output: a contribution for each of its first 32 different
errors. Input of `compile`: all contributions on one error. Output: a `Finding`, or None. The key is (error class, verb,
masked message). Failures that differ in these are never merged, because a false merge gives a wrong recovery. A segment
contributes how often the failure happened, what was tried after each and whether that worked, and what was done before
tries that failed or worked. A failure in one session only gives no finding.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from hmx_pipeline.compiler.artifact_text import listed, most_frequent, plural, worked
from hmx_pipeline.compiler.association import by_chance
from hmx_pipeline.compiler.confidence import CONTRADICTED, tally, wilson
from hmx_pipeline.compiler.evidence_kind import ArtifactType, Extracted, Finding, Need
from hmx_pipeline.compiler.recoveries import HELPED, After, Recovery, after, recoveries, tried_again
from hmx_pipeline.compiler.tasks.readings import readings
from hmx_pipeline.compiler.tasks.slot_texts import slot_lines, told_source
from hmx_pipeline.compiler.tasks.slots import Instance, goal_of, unified
from hmx_pipeline.compiler.tasks.task_run import acts_of, read_act, run_of, wishes_of
from hmx_pipeline.compiler.tasks.templates import Template, templates
from hmx_pipeline.contracts.event_types import ACTS, Role
from hmx_pipeline.contracts.evidence import Contribution, Segment, SegmentOutcome
from hmx_pipeline.contracts.options import Section, Status
from hmx_pipeline.segments.action_names import ASK, EDIT, blamed, mutates, phrase_of, silent, tool_of, verb_of, words_of
from hmx_pipeline.segments.commands import Simple
from hmx_pipeline.segments.intent import stem
from hmx_pipeline.segments.lexicon import word_set
from hmx_pipeline.segments.masking import mask, mask_ids, readable, sentence, shorten
from hmx_pipeline.segments.pairing import Action

NAME: Final = "failure_playbook"
_KEYS: Final = 32  # different errors kept of a segment: the first
_TRIES: Final = 8  # most tries after one error in a segment
_BEFORE: Final = 24
_ACTS: Final = 12  # of the tries of one error in one segment, kept whole
_MESSAGE: Final = 160
_TITLE: Final = 90
_LEAST_SESSIONS: Final = 2
_ACTIVE_OCCURRENCES: Final = 2
_ACTIVE_RECOVERIES: Final = 2
_MOST: Final = 0.8
_SIDE: Final = 5  # fewest failed tries, and successful ones, from which prevention is judged
_CHANCE: Final = 0.01
_SHOWN: Final = 5
_SEVERITY: Final = ((0.25, "low"), (0.5, "medium"), (0.8, "high"))
_GENERAL: Final = word_set("error exception failed failure command tool process exit code status non zero nonzero")
"""Words in an error class that say nothing specific."""
_GENERAL_STEMS: Final = frozenset(map(stem, _GENERAL))
_PROGRAM: Final = re.compile(r"^<(?:id|path)>: ")
_PASSES: Final = re.compile(
    r"\b(?:sibling|parallel|another|previous) (?:\w+ )*call\b.*\b(?:errored|failed)\b"
    r"|\bcall (?:was )?(?:cancell?ed|skipped)\b",
    re.IGNORECASE,
)


class _ErrorKey(NamedTuple):
    type: str
    verb: str
    message: str

    @property
    def text(self) -> str:
        return "\n".join(self)  # none of the parts contains a line break


def extract(segment: Segment, outcome: SegmentOutcome, actions: Sequence[Action]) -> list[Extracted]:
    done = [action for action in actions if not silent(action.verb)]
    places: dict[_ErrorKey, list[int]] = {}
    for i, action in enumerate(done):
        key = _error_key(action) if _to_blame(segment, action) else None
        if key is not None and (key in places or len(places) < _KEYS):
            places.setdefault(key, []).append(i)
    tries = {key: [after(i, done, segment.steps, outcome) for i in at[:_TRIES]] for key, at in places.items()}
    return [_extracted(key, at, done, outcome, segment, tries) for key, at in places.items()]


def _to_blame(segment: Segment, action: Action) -> bool:
    """Return False if the failure is that of another command of the same line, or could be."""
    first, failure = segment.steps[action.position], action.failure
    if first.role is Role.CALL or failure is None:
        return True
    part = blamed(first.name, f"{failure.type} {failure.message}")
    return part == first.name or (bool(part) and verb_of(first.role, part) == action.verb)


def _error_key(action: Action) -> _ErrorKey | None:
    """Return the key; None if the failure says nothing. A read that fails without a message found nothing, which is an
    answer. Warnings, and calls that were cancelled because of others, are ignored."""
    failure = action.failure
    if failure is None or _PASSES.search(failure.message) or failure.type.endswith("Warning"):
        return None
    looks = action.role is Role.ACTION and not mutates(action.verb)
    if not failure.message and (looks or _GENERAL.issuperset(words_of(failure.type))):
        return None
    kind, message = (
        mask(text, action.values).lower()[:_MESSAGE].rstrip(" .") for text in (failure.type, failure.message)
    )
    return _ErrorKey(kind, action.verb, _PROGRAM.sub("", message.removeprefix(f"{tool_of(action.verb)}: ")))


def _extracted(
    key: _ErrorKey,
    at: Sequence[int],
    done: Sequence[Action],
    outcome: SegmentOutcome,
    segment: Segment,
    every: Mapping[_ErrorKey, Sequence[After]],
) -> Extracted:
    tries = every[key]
    elsewhere = [[*try_.steps, try_.again] for other, own in every.items() if other != key for try_ in own]
    sources = [event for i in at[:_TRIES] for event in done[i].events]
    sources += [done[i].events[0] for try_ in tries for i in try_.rests_on]
    failure = done[at[0]].failure
    assert failure is not None
    tried = {done[i].verb: done[i] for try_ in tries for i in try_.rests_on}
    done_whole = (one for verb, one in tried.items() if verb != EDIT and one.role in ACTS and one.ok is not False)
    acted = list(islice(done_whole, _ACTS))  # of an edit only the file is known, and nobody can run that
    return Extracted(
        key=key.text,
        source_events=list(dict.fromkeys(sources)),
        outcome=outcome,
        tags=[tag for tag in (tool_of(key.verb), readable(key.type, 40).lower()) if tag],
        body={
            "type": shorten(failure.type, 80),
            "verb": key.verb,
            "message": key.message,
            "surface": mask_ids(shorten(failure.message, _MESSAGE), done[at[0]].values),
            "fault": "",  # workers of release 0.2 read it, beside newer ones during an upgrade
            "occurrences": len(at),
            "recovered": any(try_.worked for try_ in tries),
            "after": [{"steps": list(try_.steps), "again": try_.again, "worked": try_.worked} for try_ in tries],
            "changed": [list(try_.changed) for try_ in tries],
            "elsewhere": elsewhere[:_TRIES],
            "failed": acts_of(segment.steps, [done[at[0]]] if key.verb not in ("", EDIT) else ()),
            "before": done[at[0] - 1].verb if at[0] else "",
            "tries": list(_tries(key.verb, done)),
            "asked": wishes_of(segment),
            "subject": segment.whose,
            "verbs": [action.verb for action in acted],
            "acts": acts_of(segment.steps, acted),
        },
    )


def _tries(verb: str, done: Sequence[Action]) -> Iterator[dict[str, Any]]:
    """Yield tries of the verb, what was done since the try before, and whether they worked. What follows a failed try
    is recovery, not prevention, so the next try is left out."""
    since: list[str] = []
    tries, clean = 0, True
    for action in done:
        if action.asked:
            since.append(ASK)
        if action.verb != verb:
            if action.verb and action.ok is not False:
                since.append(action.verb)
        elif action.ok is not None:
            if clean and tries < _TRIES:
                tries += 1
                yield {"ok": action.ok, "before": list(dict.fromkeys(since))[-_BEFORE:]}
            since, clean = [], action.ok


def compile_(contributions: Sequence[Contribution]) -> Finding | None:
    sessions = len({c.session_id for c in contributions})
    if sessions < _LEAST_SESSIONS:
        return None
    recovered = tally((c.session_id, c.body["recovered"]) for c in contributions)
    verb = contributions[0].body["verb"]
    pattern = _pattern(contributions, verb)
    occurrences = sum(c.body["occurrences"] for c in contributions)
    acts, slots = _whole_acts(contributions)
    ways_out = recoveries(contributions, acts)
    active = all(need.met for need in _needs(contributions, ways_out))
    often = [worked(way.counts.successes, way.counts.sessions) for way in ways_out]
    recovery_steps = [f"{way.words} ({times})" for way, times in zip(ways_out, often, strict=True)]
    recovery_actions = [f"{way.acts} ({times})" for way, times in zip(ways_out, often, strict=True)]
    return Finding(
        title=_title(pattern, verb),
        summary=(
            f"Seen {plural(occurrences, 'time')} in {plural(sessions, 'session')}; {recovered.successes} recovered."
            + "".join(f" Most reliable: {way[:1].lower()}{way[1:]}." for way in recovery_actions[:1])
        ),
        content={
            "failure_pattern": f"{sentence(phrase_of(verb))} fails: {pattern}" if verb else pattern,
            "trigger_conditions": _triggers(contributions, verb),
            "symptoms": _symptoms(contributions),
            "recovery_steps": recovery_steps,
            "recovery_actions": recovery_actions,
            "recovery_slots": {name: slot for name, slot in slots.items() if f"<{name}>" in "".join(recovery_actions)},
            "prevention_strategies": _prevention(contributions, verb),
            "severity": _severity(contributions),
        },
        confidence=recovered.bound,
        status=Status.ACTIVE if active else Status.DRAFT,
        success_rate=recovered.rate,
        checked={
            "sessions": sessions,
            "occurrences": occurrences,
            "recoveries": recovered.successes,
            "bound": recovered.bound,
            "rule": f"active: {_ACTIVE_OCCURRENCES} sessions, {_ACTIVE_RECOVERIES} recoveries, {HELPED} of them by one "
            f"way out with bound {CONTRADICTED}",
            "enough": active,
        },
        verdicts=ways_out[0].verdicts if ways_out else (),
    )


def _whole_acts(contributions: Sequence[Contribution]) -> tuple[dict[str, str], dict[str, Any]]:
    """By verb the action as one would run it, where it is known but for slots that say where their values come from. Of
    what failed only another form of it; of that, and of what took its place, one slot may stay open."""
    if not tried_again(contributions):
        return {}, {}
    runs, own = [run_of(c) for c in contributions], contributions[0].body["verb"]
    last = {own, *(after["again"] for c in contributions for after in c.body["after"])}
    options, goals = readings(runs), tuple(map(goal_of, runs))
    failed = [[p for act in c.body.get("failed", ()) for p in read_act(act).parts(options)] for c in contributions]
    done: dict[str, list[Instance]] = defaultdict(list)
    for run, c in zip(runs, contributions, strict=True):
        for verb, deed in zip(c.body.get("verbs", ()), run.deeds, strict=False):
            parts = deed.parts(options)
            if len(parts) == 1:
                done[verb].append(Instance(run, deed, parts[0], 0))
    best: dict[str, Template] = {}
    for verb, instances in sorted(done.items()):
        if len({one.run.session for one in instances}) < _LEAST_SESSIONS:
            continue
        found = templates(instances, goals)
        known = [t for t in found if sum(slot.source == "unknown" for slot in t.slots) <= (verb in last)]
        if verb == own:
            known = [
                t for t in known if 2 * sum(any(map(t.resembles, deed)) for deed in failed) < sum(map(bool, failed))
            ]
        sessions = {t.text: len({one.run.session for one in t.instances}) for t in known}
        often = [t for t in known if 2 * sessions[t.text] > len({one.run.session for one in instances})]
        best.update((verb, t) for t in often if sessions[t.text] >= _LEAST_SESSIONS)
    slots = unified(slot for t in best.values() for slot in t.slots)
    # What their values look like finds procedures, and no playbooks.
    given = {run.name: _values(parts) for run, parts in zip(runs, failed, strict=True)}
    sources = {name: {"source": told_source(own, given), "like": []} for name, own in slots.items()}
    return {verb: t.text for verb, t in best.items()}, sources


def _values(parts: Iterable[Simple]) -> set[str]:
    return {value for part in parts for value in (*part.words, *(v for _, v in part.options)) if value}


def needs(contributions: Sequence[Contribution]) -> list[Need]:
    return _needs(contributions, recoveries(contributions, _whole_acts(contributions)[0]))


def _needs(contributions: Sequence[Contribution], ways_out: Sequence[Recovery]) -> list[Need]:
    recovered = tally((c.session_id, c.body["recovered"]) for c in contributions)
    helped = max((way.counts.successes for way in ways_out), default=0)
    return [
        Need("sessions with this error", recovered.sessions, _ACTIVE_OCCURRENCES),
        Need("sessions that recovered", recovered.successes, _ACTIVE_RECOVERIES),
        Need("sessions that one way out helped", helped, HELPED),
        Need("what it says but that it failed and was mended", _news(contributions, ways_out), 1),
        Need("bound of the best way out", max((way.counts.bound for way in ways_out), default=0.0), CONTRADICTED),
    ]


def _news(contributions: Sequence[Contribution], ways_out: Sequence[Recovery]) -> int:
    """Count what the playbook says to do beyond "look, edit and try again". Recoveries of an error without a message do
    not count, because it can mean anything."""
    ways = sum(way.telling for way in ways_out) if contributions[0].body["message"] else 0
    return ways + len(_prevention(contributions, contributions[0].body["verb"]))


def _pattern(contributions: Sequence[Contribution], verb: str) -> str:
    """Return the most frequent message, with quotes and paths only if nearly all share them, and with the error class
    if it adds something."""
    kind, text = _said(contributions, verb)
    if not (kind and text):
        return kind or text or "error without a message"
    named = kind.endswith(("Error", "Exception"))
    return f"{kind}: {text}" if named or _adds(kind, text) else text


def _said(contributions: Sequence[Contribution], verb: str, limit: int = _TITLE) -> tuple[str, str]:
    """Return class and message; either may be empty."""
    surface, share = most_frequent(c.body["surface"] for c in contributions)
    kind = most_frequent(c.body["type"] for c in contributions)[0]
    text = readable((surface if share >= _MOST else mask(surface)).removeprefix(f"{tool_of(verb)}: "), limit)
    return readable(mask(kind)).replace("_", " "), text


def _adds(kind: str, text: str) -> bool:
    """Return True if the class has a word that the message lacks."""
    told = _GENERAL_STEMS.union(map(stem, words_of(text)))
    return any(stem(word) not in told for word in words_of(kind))


def _title(pattern: str, verb: str) -> str:
    where = phrase_of(verb) if verb else ""
    return shorten(f"{sentence(pattern)} ({where})" if where else sentence(pattern), 120)


def _triggers(contributions: Sequence[Contribution], verb: str) -> list[str]:
    """Return what came right before it, if that comes before tries that work more seldom than chance explains."""
    before, share = most_frequent(c.body["before"] for c in contributions)
    good = [t["before"] for c in contributions for t in c.body["tries"] if t["ok"]]
    if not verb or before in ("", verb) or share < _MOST or len(good) < _SIDE:
        return []
    failed, worked_too = sum(c.body["before"] == before for c in contributions), sum(before in own for own in good)
    if by_chance(failed, len(contributions), worked_too, len(good)) > _CHANCE:
        return []
    return [f"{sentence(phrase_of(verb))} right after {phrase_of(before)}"]


def _severity(contributions: Sequence[Contribution]) -> str:
    """Return the severity: the mean of the shares of sessions that failed and of those that did not recover."""
    failed = tally((c.session_id, c.outcome is SegmentOutcome.FAILURE) for c in contributions)
    stuck = tally((c.session_id, not c.body["recovered"]) for c in contributions)
    share = (failed.successes + stuck.successes) / (2 * failed.sessions)
    return next((name for bound, name in _SEVERITY if share < bound), "critical")


def _symptoms(contributions: Sequence[Contribution]) -> list[str]:
    kind, text = _said(contributions, contributions[0].body["verb"], _MESSAGE)
    shown = [sentence(form) for form in (kind if not text or _adds(kind, text) else "", text) if form]
    repeats = sum(c.body["occurrences"] > 1 for c in contributions)
    if 2 * repeats >= len(contributions):
        shown.append("The same error comes back within a session")
    return list({text.lower(): text for text in reversed(shown)}.values())[::-1]


def _prevention(contributions: Sequence[Contribution], verb: str) -> list[str]:
    """Return earlier steps that distinguish tries that worked from tries that failed, more than by chance,
    and that the error does not name."""
    good = [t["before"] for c in contributions for t in c.body["tries"] if t["ok"]]
    bad = [t["before"] for c in contributions for t in c.body["tries"] if not t["ok"]]
    if len(good) < _SIDE or len(bad) < _SIDE:
        return []
    said = set(words_of(contributions[0].body["surface"]))
    strategies = []
    steps = {step for before in (*good, *bad) for step in before}
    for step in sorted(step for step in steps if not said.issuperset(words_of(step))):
        with_good, with_bad = sum(step in b for b in good), sum(step in b for b in bad)
        mostly = 2 * with_good >= len(good) and wilson(with_good, len(good)) > 1 - wilson(len(bad) - with_bad, len(bad))
        chance = by_chance(with_good, len(good), with_bad, len(bad))
        if step not in (EDIT, ASK) and mostly and chance * len(steps) <= _CHANCE:
            told = (
                f"{sentence(phrase_of(step))} first: done before {with_good} of {plural(len(good), 'try', 'tries')} to"
            )
            told += f" {phrase_of(verb)} that worked and {with_bad} of {len(bad)} that failed"
            strategies.append((round(chance, 9), told))
    return [words for _, words in sorted(strategies)][:_SHOWN]


def lines(content: Mapping[str, Any]) -> Iterator[str]:
    """Yields what a pack shows of it. Only what can be run stands between backticks."""
    pattern = content.get("failure_pattern", "").replace("`", "")
    yield from listed("Fails as", [pattern] if pattern else ())
    yield from listed("When", [text.replace("`", "") for text in content.get("trigger_conditions", ())])
    told = content.get("failure_pattern", "").casefold()
    yield from listed("Shows", [text for text in content.get("symptoms", ()) if text.casefold() not in told])
    yield from listed("Recover", content.get("recovery_actions") or content.get("recovery_steps", ()))
    yield from slot_lines(content.get("recovery_slots", {}))
    yield from listed("Prevent", content.get("prevention_strategies", ()))


TYPE: Final = ArtifactType(NAME, extract, compile_, Section.PROCEDURES, "failures", lines, needs)
