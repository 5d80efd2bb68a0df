"""run contributions: everything that one segment did; all runs together are grouped into the tenant's tasks.

Input of `extract`: a segment, its outcome and its actions. Output: its run, or what its user told. Input of `group`:
all of a tenant's. Output: pattern → contributions: a `task_schema` and an `own_value` pattern for each task. All runs
are under one key, because a run's task is found by comparison with the others. A task is named after its first run,
which stays the first as others come.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Final

from hmx_pipeline.compiler import task_schema
from hmx_pipeline.compiler.evidence_kind import EvidenceKind, Extracted
from hmx_pipeline.compiler.private_words import said_words, shared_words
from hmx_pipeline.compiler.tasks import own_values
from hmx_pipeline.compiler.tasks.readings import NONE
from hmx_pipeline.compiler.tasks.run_clusters import known, tasks
from hmx_pipeline.compiler.tasks.slots import SESSIONS
from hmx_pipeline.compiler.tasks.task_run import (
    MEANT,
    act_words,
    begins,
    body,
    run_of,
    spoken_words,
    tokens,
    told,
    words_in,
)
from hmx_pipeline.contracts.bounded_cache import once, remembered
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Contribution, Pattern, Segment, SegmentOutcome, segment_rank
from hmx_pipeline.contracts.keys import join_key
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.segments.commands import wordlike
from hmx_pipeline.segments.intent import goal_messages, goal_title
from hmx_pipeline.segments.masking import shorten
from hmx_pipeline.segments.pairing import Action

_STATE, _FEEDBACK = Role.STATE, Role.FEEDBACK  # enum lookups are ten times slower
NAME: Final = task_schema.MADE_OF
KEY: Final = "1"
"""Version of the body's form. Another form needs another key."""
TOLD: Final = f"{KEY}:told"
"""Key of segments without actions, in which users may say how a task is done. They have a bound of their own."""
KEYS: Final = (KEY, TOLD)
_STATES: Final = 4
_MOSTLY: Final = 0.6
_SOME: Final = 0.2
_LIFT: Final = 2
_A_TOOL: Final = "\n"


@once  # strategy_template asks as well
def extract(segment: Segment, outcome: SegmentOutcome, actions: Sequence[Action]) -> list[Extracted]:
    goal = goal_messages(segment.steps)
    run = body(segment, actions)
    if run is None:
        said = told(segment)
        source = [m.event_id for m in goal]
        none = SegmentOutcome.UNKNOWN  # a conversation's outcome says nothing about a task
        return [Extracted(key=TOLD, source_events=source, outcome=none, tags=[], body=said)] if said else []
    states = (step.text for step in segment.steps if step.role is _STATE and step.text)
    done = [action.events[0] for action in actions if action.verb]
    heard = [step.event_id for step in segment.steps if step.role is _FEEDBACK]
    return [
        Extracted(
            key=KEY,
            source_events=list(dict.fromkeys([*(m.event_id for m in goal), *done[: len(run["acts"])], *heard[-1:]])),
            outcome=outcome,
            tags=[],
            body={
                **run,
                "goal": goal_title(goal),
                "actions": len(actions),
                "states": list(dict.fromkeys(shorten(text, 60) for text in states))[-_STATES:],
            },
        )
    ]


def group(contributions: Sequence[Contribution]) -> dict[Pattern, list[Contribution]]:
    """Return the patterns of the tenant's tasks, each with its contributions in event-time order."""
    told = [c for c in contributions if c.pattern_key == TOLD]
    done = [c for c in contributions if c.pattern_key == KEY]
    by_name = {join_key(c.session_id, c.segment_id): c for c in _with_common_values(done, told)}
    slots, persons = _slots(done), _own_places(done)
    runs = [
        known(
            name,
            segment_rank(c.session_id, c.segment_id),
            c.body["said"],
            _without(slots, persons, c.body),
            c.first_at if c.outcome is SegmentOutcome.SUCCESS else None,
        )
        for name, c in by_name.items()
    ]
    found = {}
    meant, often = _Meant(told), Counter(feature for c in done for feature in c.body["done"])
    wished = Counter(word for c in done for word in c.body["said"])
    for names in tasks(runs):
        own = sorted((by_name[name] for name in names), key=in_time)
        usual = _usual(own, often, len(done))
        apart = _apart(own, wished, len(done))
        own = [c.saying(usual=usual, apart=apart) for c in own] if usual or apart else own
        task = _task(own[0])
        found[Pattern(own_values.NAME, task)] = sorted([*own, *meant.naming(own)], key=in_time)
        found[Pattern(task_schema.NAME, task)] = sorted([*own, *meant.by(own)], key=in_time)
    return found


def _usual(own: Sequence[Contribution], often: Mapping[str, int], runs: int) -> list[str]:
    """Return what these runs do and half of all others do too, if there are half as many others: it leads anywhere."""
    others = runs - len(own)
    mine = Counter(feature for c in own for feature in c.body["done"]) if 2 * others >= len(own) else Counter[str]()
    return sorted(feature for feature, n in mine.items() if 2 * (often[feature] - n) >= others)


def _apart(own: Sequence[Contribution], often: Mapping[str, int], runs: int) -> list[str]:
    """Return the words that some of these wishes have, and of other tasks' half as many at most: they say what is
    wanted here."""
    mine, others = Counter(word for c in own for word in c.body["said"]), runs - len(own)
    some = {word: n for word, n in mine.items() if n >= max(SESSIONS, _SOME * len(own))}
    return (
        sorted(word for word, n in some.items() if n * others >= _LIFT * (often[word] - n) * len(own)) if others else []
    )


def _slots(contributions: Sequence[Contribution]) -> set[str]:
    """Acts after which a word of the wish mostly stands that another act takes too: it says what it is done to, and not
    what is done, as `page` and `page assign` do not in `page assign kim`, where `tell kim` comes next."""
    values: dict[str, Counter[str]] = defaultdict(Counter)
    for c in contributions:
        for feature in c.body.get("taken", ()):
            values[feature.rpartition(" ")[0]][feature] += 1
    runs = Counter(feature for c in contributions for feature in c.body["done"] if feature in values)
    return {act for act, own in values.items() if len(own) > 1 and own.total() >= _MOSTLY * runs[act]}


def _own_places(contributions: Sequence[Contribution]) -> set[str]:
    """Options and arguments of which each subject has values of its own: they say who did it, and not what."""
    by: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    times: Counter[str] = Counter()
    for c in contributions:
        for feature in c.body["done"] if c.body["subject"] else ():
            place, given, value = feature.partition("=")
            if given:
                by[place][value].add(c.body["subject"])
                times[place] += 1
    several = ((place, own) for place, own in by.items() if len(own) > 1 and times[place] > len(own))
    return {place for place, own in several if all(len(subjects) == 1 for subjects in own.values())}


def _without(slots: Set[str], own: Set[str], body: Mapping[str, Any]) -> list[str]:
    """What was done, without the words that fill these, and without values that are somebody's own."""
    filled = [feature for feature in body.get("taken", ()) if feature.rpartition(" ")[0] in slots]
    done = (f for f in body["done"] if f.partition("=")[0] not in own or "=" not in f)
    return [f for f in done if not any(f == each or f.startswith(f"{each} ") for each in filled)]


def in_time(c: Contribution) -> tuple[int, str]:
    return c.first_at, c.contribution_id


class _Meant:
    """Segments without actions, indexed by the words that users said."""

    def __init__(self, told: Sequence[Contribution]) -> None:
        self._told = told
        self._by_word: dict[str, list[int]] = defaultdict(list)
        self._by_begin: dict[str, list[int]] = defaultdict(list)
        for number, c in enumerate(told):
            for word in words_in(" ".join(c.body["told"])):
                self._by_word[word].append(number)
            for begin in begins(token for text in c.body["told"] for token in tokens(text)):
                self._by_begin[begin].append(number)

    def by(self, runs: Sequence[Contribution]) -> list[Contribution]:
        """Return those that share two words with an action of these runs."""
        acts = {part for c in runs for deed in run_of(c).deeds for part in deed.parts(NONE)}
        found: set[int] = set()
        for act in acts:
            shared = Counter(number for word in act_words(act) for number in self._by_word.get(word, ()))
            found.update(number for number, words in shared.items() if words >= MEANT)
        return [self._told[number] for number in sorted(found)]

    def naming(self, runs: Sequence[Contribution]) -> list[Contribution]:
        """Return those that name something with the prefix of a value in these runs."""
        values = frozenset[str]().union(*(run_of(c).begins for c in runs))
        return [self._told[number] for number in sorted({n for begin in values for n in self._by_begin.get(begin, ())})]


def _with_common_values(contributions: Sequence[Contribution], told: Sequence[Contribution]) -> Iterator[Contribution]:
    """Add to each run its common values, which belong to no single person: two subjects used them or named them in an
    instruction; without known subjects, two sessions. And those that anybody may ask for: two subjects asked for them,
    or somebody of a team did. Words that a tool itself brings up belong to the tool. Where subjects are known, add its
    words that two of them use in any task."""
    values = [run_of(c).values for c in contributions]
    known = any(c.body["subject"] for c in contributions)
    used: dict[str, set[str]] = defaultdict(set)
    for c, own in zip(contributions, values, strict=True):
        for value in own:
            used[value].add(_whose(c, known))
    named: dict[str, set[str]] = defaultdict(set)
    for c in (*contributions, *told):
        for value in used.keys() & _values_in(tuple(c.body["told"])):
            named[value].add(_whose(c, known))
    for value, heard in _in_errors(contributions, used.keys()).items():
        if not known or "" in heard or len(heard) >= SESSIONS:
            named[value].add(_A_TOOL)
    wished, wishing = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for c in contributions:
        for value in used.keys() & _values_in(tuple(c.body["asked"])):
            wished[value].add(c.session_id)
            wishing[value].add(c.subject)
    team = known and not any(c.subject for c in contributions)
    spoken = shared_words([*contributions, *told]) if known else set()
    apart = {value for c in told for value in used.keys() & _values_in(tuple(c.body["told"]))}
    for c, own in zip(contributions, values, strict=True):
        common = sorted(value for value in own if len((used[value] | named[value]) - {""}) >= SESSIONS)
        by_others = [value for value in common if named[value]]
        asked = sorted(v for v in own - apart if wished[v] and (team or _of_two(wished[v], wishing[v])))
        words = sorted(said_words(c) & spoken) if known else []
        more = {"shared": words} if words else {}
        yield c.saying(common=common, named=by_others, wished=asked, **more) if common or asked or more else c


def _in_errors(contributions: Sequence[Contribution], values: Set[str]) -> dict[str, set[str]]:
    """Return the words in error messages, each with the subjects that got them; a word is nobody's if the tool was the
    first to name it, and not the user or the agent."""
    heard: dict[str, set[str]] = defaultdict(set)
    for c in contributions:
        named = {*_values_in(tuple(c.body["asked"]))}
        for deed in run_of(c).deeds:
            for part in deed.parts(NONE):
                named.update((*part.words, *(value for _, value in part.options if value)))
            for value in values & _values_in((deed.error,)) if deed.error else ():
                if wordlike(value):
                    heard[value].add(c.body["subject"] if value in named else "")
    return heard


def _of_two(sessions: Set[str], subjects: Set[str]) -> bool:
    return len(sessions) >= SESSIONS and ("" in subjects or len(subjects) >= SESSIONS)


def _whose(c: Contribution, known: bool) -> str:
    """Return whose a session is. If subjects are known, a session without one is nobody's."""
    subject: str = c.body["subject"]
    return subject if known else c.session_id


@remembered(16 * MB)
def _values_in(texts: tuple[str, ...]) -> frozenset[str]:
    return frozenset(spoken_words(texts)).union(token for text in texts for token in tokens(text))


def _task(first: Contribution) -> str:
    name = join_key(first.session_id, first.segment_id)
    return f"{KEY}:{hashlib.sha256(name.encode()).hexdigest()[:16]}"


KIND: Final = EvidenceKind(NAME, extract, None, group=group)
