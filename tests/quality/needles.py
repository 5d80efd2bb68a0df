"""Statements planted among ten thousand others, asked for in other words: is the right value among the five best
entries? Of what was superseded the new value, and the old one only as a drop with its reason; of what assistants
contradict each other about, both sides.

Names and values are made up, so nothing but the statement holds them; the other messages say the same kinds of things
of other names, and talk. Packs are those of the service.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from hmx_pipeline.contracts.options import Section
from hmx_pipeline.contracts.pack import ContextPack, DropReason
from hmx_pipeline.retrieval.score import MemorySnapshot
from tests.quality.figures import Bar, Case, Figure, mean
from tests.quality.remembered import both_stages, memory
from tests.quality.sessions import Sessions
from tests.support.talk import Turn, said

_TENANT: Final = "acme"
_OTHERS: Final = 10_000
_TURNS: Final = 25
"""Of a session."""
_TALK: Final = 0.7
"""The share of the others that state nothing."""
_BUDGET: Final = 1_000
_TOP: Final = 5
_EACH: Final = 6
"""Needles of each form."""
_BAR: Final = Bar(least=0.9)


class Form(NamedTuple):
    states: str
    asks: str
    believed: bool = False
    """Also of an assistant: of what a user should know best memory takes nothing from others."""


_FORMS: Final = (
    Form("The {x} service runs on {v}.", "Where do we deploy {x} to, which platform is it?", True),
    Form("{x} is written in {v}.", "What programming language did we choose for {x}?", True),
    Form("{x} is hosted in {v}.", "In which region do the machines of {x} stand?", True),
    Form("We use {v} for {x}.", "What is it that takes care of {x}?"),
    Form("The {x} database is {v}.", "Which engine keeps the data of {x}?"),
    Form("The owner of {x} is {v}.", "Who is responsible for {x}?"),
    Form("The default region of {x} is {v}.", "If I say nothing, where does {x} start?"),
    Form("{x} listens on {v}.", "Where must clients connect to reach {x}?", True),
    Form("{x} is deployed to {v}.", "Which cluster has {x}?", True),
)
_TALKING: Final = (
    "Thanks, {x} looks fine to me now, let us go on tomorrow.",
    "Can you have a look at the dashboard of {x} when you find the time?",
    "I have read the notes about {x} again and still wonder how it began.",
    "We talked about {x} for an hour, and nobody remembered why it was slow.",
    "Please rename the column in the report and send it to {x} again.",
    "The meeting about {x} was moved once more, sorry for the noise.",
)
_SYLLABLES: Final = (
    *("ba", "do", "fen", "gri", "hal", "jor", "kel", "lum"),
    *("mir", "nov", "pra", "quin", "ros", "tev", "wix", "zan"),
)


class Planted(NamedTuple):
    form: Form
    name: str
    value: str
    later: str = ""


class _Words:
    """Names that nobody else has."""

    def __init__(self) -> None:
        self.dice = random.Random(20_250_601)
        self._used: set[str] = set()

    def new(self) -> str:
        while True:
            word = "".join(self.dice.choice(_SYLLABLES) for _ in range(4)).capitalize()
            if word not in self._used:
                self._used.add(word)
                return word


def task(_: Sessions) -> Iterator[Figure]:
    words = _Words()
    plain, superseded, disputed = [*_planted(words)], [*_planted(words)], [*_planted(words)]
    disputed = [one for one in disputed if one.form.believed]
    with memory("needles") as held:
        held.add(both_stages(_events(words, plain, superseded, disputed)))

        def ask(needle: Planted) -> tuple[ContextPack, MemorySnapshot]:
            return held.ask(needle.form.asks.format(x=needle.name), _TENANT, [_BUDGET])[_BUDGET]

        found = [Case(one.name, float(_among_top(ask(one)[0], one.value))) for one in plain]
        answers = [(one, *ask(one)) for one in superseded]
        newer = [Case(one.name, float(_among_top(pack, one.later))) for one, pack, _ in answers]
        gone = [Case(one.name, float(_is_out(one.value, pack, fetched))) for one, pack, fetched in answers]
        both = [Case(one.name, float(_shows_both(one, ask(one)[0]))) for one in disputed]
    among = f"among {_OTHERS:,}"
    yield mean("needles", among, f"the value in the top {_TOP}", found, _BAR)
    yield mean("needles", "superseded", f"the new value in the top {_TOP}", newer, _BAR)
    yield mean("needles", "superseded", "the old value out, with its reason", gone, _BAR)
    yield mean("needles", "contradicted", "both sides shown", both, _BAR)


def _planted(words: _Words) -> Iterator[Planted]:
    for form in _FORMS:
        for _ in range(_EACH):
            yield Planted(form, words.new(), words.new(), words.new())


def _events(
    words: _Words, plain: Sequence[Planted], superseded: Sequence[Planted], disputed: Sequence[Planted]
) -> list[dict[str, Any]]:
    """Second statements come half-way at the earliest, and in sessions of their own."""
    early: list[Turn] = [_says(one, one.value) for one in (*plain, *superseded)]
    early += [("assistant", _says(one, one.value)) for one in disputed]
    late: list[Turn] = [_says(one, one.later) for one in superseded]
    late += [("assistant", _says(one, one.later)) for one in disputed]
    sessions: list[list[Turn]] = [[*_others(words)] for _ in range(_OTHERS // _TURNS)]
    half = len(sessions) // 2
    for planted, chosen in ((early, sessions[:half]), (late, sessions[half:])):
        words.dice.shuffle(planted)
        for number, turn in enumerate(planted):
            session = chosen[number % len(chosen)]
            session.insert(words.dice.randrange(len(session)), turn)
    return [
        event
        for number, turns in enumerate(sessions)
        for event in said(f"s{number:04}", *turns, at=2 * number, tenant_id=_TENANT)
    ]


def _says(one: Planted, value: str) -> str:
    return one.form.states.format(x=one.name, v=value)


def _others(words: _Words) -> Iterator[Turn]:
    for _ in range(_TURNS):
        if words.dice.random() < _TALK:
            yield words.dice.choice(_TALKING).format(x=words.new())
        else:
            yield words.dice.choice(_FORMS).states.format(x=words.new(), v=words.new())


def _among_top(pack: ContextPack, value: str) -> bool:
    best = sorted(pack.entries, key=lambda entry: (-entry.relevance_score, entry.rank))[:_TOP]
    return any(value in entry.content for entry in best)


def _is_out(value: str, pack: ContextPack, fetched: MemorySnapshot) -> bool:
    """No entry says it, and what does is named among the drops as deprecated."""
    saying = {each.source.record_id for each in fetched.knowledge if value in each.source.text}
    dropped = {drop.source_id for drop in pack.dropped_entries or () if drop.drop_reason is DropReason.DEPRECATED}
    return bool(saying & dropped) and not any(value in entry.content for entry in pack.entries)


def _shows_both(one: Planted, pack: ContextPack) -> bool:
    return any(
        one.value in entry.content and one.later in entry.content
        for entry in pack.entries
        if entry.section is Section.CONFLICTS
    )
