"""Facts are revised by what they are about: after a statement and what replaces it, whichever came first, the new value
holds and the old one does not.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.quality.planted_updates import LANGUAGES
from tests.support.talk import holding, knowledge_of, said

DAY = 1_440
"""In minutes."""


class Pair(NamedTuple):
    language: str
    before: str
    after: str
    old: str
    new: str


def pairs() -> Iterator[Pair]:
    for code, language in LANGUAGES.items():
        for number, (form, now, mine) in enumerate(language.said):
            old, new = language.values[number % len(language.values)]
            states, renewed = (form.format(a=x, b=x) for x in (old, new))
            inside = renewed.rstrip(".。")
            lowered = inside if (mine and code == "en") or code in ("ja", "zh") else inside[:1].lower() + inside[1:]
            for update in (*language.own, *(language.mine if mine else language.any)):
                after = update.format(
                    n=now.format(b=new), s=inside if update.startswith("{") else lowered, a=old, b=new
                )
                yield Pair(code, states, after, old, new)


def test_the_new_value_holds_and_the_old_one_does_not_whichever_came_first() -> None:
    wrong = [(pair, order, held) for pair in pairs() for order, held in _wrong(pair)]
    assert [(*pair[1:3], order, held) for pair, order, held in wrong] == []


def _wrong(pair: Pair) -> Iterator[tuple[str, Any]]:
    before, after = said("before", pair.before), said("after", pair.after, at=DAY)
    for order, events in (("in order", before + after), ("late", after + before)):
        records = holding(knowledge_of(events))
        if still := [record["text"] for record in records if states(record, pair.old)]:
            yield f"{order}: the old one holds", still
        if not any(states(record, pair.new) for record in records):
            yield f"{order}: the new one does not", [record["text"] for record in records]


def states(record: Any, value: str) -> bool:
    return not record["body"]["negated"] and value.lower() in record["body"]["object"].lower()


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_denial_never_becomes_what_it_denies_and_ends_it(code: str) -> None:
    language = LANGUAGES[code]
    for number, (states_it, denial) in enumerate(language.denies):
        old, new = language.values[number % len(language.values)]
        before, after = states_it.format(a=old, b=new), denial.format(a=old, b=new)
        alone = knowledge_of(said("after", after))
        assert not [record["text"] for record in alone if states(record, old)], after
        records = holding(knowledge_of(said("before", before) + said("after", after, at=DAY)))
        assert not [record["text"] for record in records if states(record, old)], (before, after)
