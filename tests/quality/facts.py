"""P3: of what is stated, how much is remembered, and is what is remembered stated?

Every saying is made plainly, denied, asked, supposed and quoted, each time by another user of another tenant, in
several made-up vocabularies; small talk is mixed in. Both folds read all of it, and what holds then is compared with
what was said: a record that nobody has plainly said is wrong, and so is one whose negation is lost.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.quality.figures import Bar, Case, Figure, mean
from tests.quality.planted_facts import CHATTER, OTHERS, SAYINGS, Saying
from tests.quality.sessions import Sessions
from tests.support.talk import holding, knowledge_of, said

_VOCABULARIES: Final = (
    {"x": "veltrix", "y": "Kaldra", "z": "Pindle", "p": "Orla", "c": "Ghent"},
    {"x": "morsun", "y": "Quillow", "z": "Tarn", "p": "Teun", "c": "Bergen"},
    {"x": "Osprel", "y": "brindleDB", "z": "Hexil", "p": "Amara", "c": "Porto"},
)
_FORMS: Final = ("plain", "denied", "asked", "supposed", "quoted")
PRECISE: Final = Bar(least=0.98)
REMEMBERED: Final = Bar(least=0.9)
Record = Mapping[str, Any]


class Told(NamedTuple):
    """One message, and what must be remembered of it: (about, value, denied), or nothing."""

    name: str
    text: str
    stated: tuple[str, str, bool] | None
    needed: bool
    """To be remembered; what takes something back may leave nothing, or a denial."""


def task(_: Sessions) -> Iterator[Figure]:
    yield from measured("planted", SAYINGS, (PRECISE, REMEMBERED))
    yield from measured("other wordings", OTHERS)


def measured(name: str, sayings: Sequence[Saying], bars: tuple[Bar, Bar] | None = None) -> Iterator[Figure]:
    told = [one for words in _VOCABULARIES for one in _told(sayings, words)]
    known = _known(told)
    precision: list[Case] = []
    recall: list[Case] = []
    for number, one in enumerate(told):
        records = known.get(f"t{number}", [])
        right = [record for record in records if one.stated is not None and _says(record, *one.stated)]
        precision += (Case(one.name, float(record in right)) for record in records)
        if one.needed:
            recall.append(Case(one.name, float(bool(right))))
    yield mean("facts", name, "precision", precision, bars and bars[0])
    yield mean("facts", name, "recall", recall, bars and bars[1])


def _told(sayings: Sequence[Saying], words: Mapping[str, str]) -> Iterator[Told]:
    for number, saying in enumerate(sayings):
        about, value = (_filled(text, words).lower() for text in (saying.about, saying.value))
        for form in _FORMS:
            text = _filled(getattr(saying, form), words)
            stated = (about, value, saying.refuses != (form == "denied")) if form in _FORMS[:2] else None
            needed = form == "plain" or (form == "denied" and saying.carried)
            yield Told(f"{number}", text, stated, needed)
    for number, text in enumerate(CHATTER):
        yield Told(f"chatter {number}", _filled(text, words), None, needed=False)


def _filled(text: str, words: Mapping[str, str]) -> str:
    for name, word in words.items():
        text = text.replace(f"{{{name}}}", word)
    return text


def _known(told: Iterable[Told]) -> dict[str, list[Record]]:
    """By tenant: what holds of its one message."""
    events = (event for n, one in enumerate(told) for event in said(f"s{n}", one.text, tenant_id=f"t{n}"))
    found: dict[str, list[Record]] = defaultdict(list)
    for record in holding(knowledge_of(events)):
        found[record["tenant_id"]].append(record)
    return found


def _says(record: Record, about: str, value: str, denied: bool) -> bool:
    body = record["body"]
    subject, whole = body["subject"].lower(), f"{body['subject']} {record['text']}".lower()
    if about in ("policy", "goal"):
        of_it = about == body["memory"]
    elif about in ("user", "team"):
        of_it = subject.startswith((about, value)) or subject in ("team", "user")
    else:
        of_it = about.replace("color", "colour") in whole
    return of_it and value in whole and body["negated"] == denied
