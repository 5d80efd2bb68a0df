"""Endings: messages that say that a value, a name or a thing no longer holds, whoever stated it.

Input: an update or a claim of a user's message; or a pattern's contributions. Output: endings, with the form that they
are kept under; or the endings that can reach these contributions. A statement belongs to the pattern of its subject,
but an ending may name the value alone: `we switched from Snowflake to BigQuery` ends `our warehouse is Snowflake`. So
an ending is a contribution under the normal form of what it names. A statement's contribution lists the forms that can
reach it (`touches`), and both are compiled together.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from hmx_pipeline.compiler.knowledge import normal_forms, renewals
from hmx_pipeline.compiler.knowledge.claim_names import TEAM, USER
from hmx_pipeline.compiler.knowledge.english import Claim
from hmx_pipeline.compiler.knowledge.knowledge_kind import Under
from hmx_pipeline.compiler.knowledge.language import DEED, LEAVE, TONGUES, VALUE, VERSION
from hmx_pipeline.compiler.knowledge.updates import Update, updates
from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.knowledge import Memory
from hmx_pipeline.contracts.limits import KNOWLEDGE_BESIDE, KNOWLEDGE_CHAIN, KNOWLEDGE_ENDINGS, MB

ENDING: Final = "ending"
_SLOT: Final = "slot"
_TWO: Final = 2
_NAMES: Final = 4
Body = Mapping[str, Any]


class Ending(NamedTuple):
    """An ending from a segment, with its key."""

    key: str
    at: int
    event: str
    how: str
    """What the key is a form of: a value, a version's name, a thing, or a thing with its predicate."""
    own: str
    """The person whose values it ends; empty if it ends nobody's own."""
    shared: bool
    """True if it ends values that are nobody's own."""
    about: Sequence[str]
    """Words of the thing that it is about; empty: any thing with the value."""
    old: str
    """The old value as it was said; empty if only the new one is known."""
    new: str
    same: str
    """The normal form of `new`."""
    states: bool
    """True if its message also states the new value as a claim."""
    source: Contribution
    values: Sequence[tuple[str, Sequence[str]]] = ()
    """Of a renewal: the values that its sentence has, with their kinds."""

    def reaches(self, body: Body, value: str, *, denies: bool) -> bool:
        if denies != (self.how == LEAVE):
            return False
        own, predicate = body.get("own", ""), body["predicate"]
        if (own != self.own if own else not self.shared) or (self.same and normal_forms.stems(value) == self.same):
            return False
        match self.how:
            case renewals.RENEWAL:
                said = renewals.topic(body["subject"], predicate, value, anybody=is_anybody(body["subject"]))
                return said.is_in(self.about) and bool(renewals.renewed(value, self.values)[0])
            case renewals.FAREWELL:
                is_fact = body["memory"] == Memory.FACT and not own  # what one says of oneself does not go with a name
                return is_fact and self._replaces(body["subject"], predicate, value)
            case "slot":
                return True
            case "place":
                return _any("places", predicate)
            case "name":
                return names_it(predicate)
            case "version":
                return normal_forms.family(value) == self.key or (value[:1].isdigit() and bool(self.new))
            case "deed" | "leave":
                return body["memory"] == Memory.POLICY and normal_forms.words_of(body["subject"]).issuperset(self.about)
        subject = body["subject"]
        is_thing = self.key == normal_forms.thing(subject)
        named = is_thing or body["memory"] == Memory.POLICY or self.key in normal_forms.of_value(value)
        # `Kim took over the rota from Ada` ends `Ada owns the rota`: what it is about is the value there.
        about = (subject, value) if is_thing or is_anybody(subject) else (subject,)
        return named and (
            not self.about or any(not normal_forms.words_within(one).isdisjoint(self.about) for one in about)
        )

    def _replaces(self, subject: str, predicate: str, value: str) -> bool:
        """Return True if it says that what the statement names is gone, and speaks of the rest of it."""
        is_thing = self.key in normal_forms.of_value(subject)
        if not is_thing and self.key not in normal_forms.of_value(value):
            return False
        kept = " ".join(word for word in value.split() if normal_forms.stems(word) != self.key)
        anybody = is_thing or is_anybody(subject)
        said = renewals.topic(subject, "" if is_thing else predicate, kept, anybody=anybody)
        return said.is_in(self.about) and renewals.is_replaced(f"{subject} {value}", self.new)


def names_it(predicate: str) -> bool:
    """Return True if the predicate gives something's name."""
    return _any("names", predicate)


def _any(name: str, predicate: str) -> bool:
    """Match the predicate in every language."""
    return any(tongue.says[name].match(predicate) for tongue in TONGUES.values())


def is_anybody(subject: str) -> bool:
    return subject in (USER, TEAM)


def reached_by(claim: Claim) -> list[str]:
    """Return the keys by which endings can reach a claim."""
    found = normal_forms.touches(*claim[1:4], plural=claim.plural)
    if renewals.values_of(claim.value):
        about = renewals.topic(claim.subject, claim.predicate, claim.value, anybody=is_anybody(claim.subject))
        found += renewals.keys(about.words)
    return [*found, *normal_forms.of_value(claim.subject)[1:]]


@remembered(4 * MB)  # an open segment is extracted repeatedly
def of_message(text: str, person: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Return the keys under which a message of a person ends something, with the bodies except time and event."""
    short = text if len(text) <= renewals.LONGEST else ""
    return (
        *(one for told in renewals.renewals(short) for one in of_renewal(told, person)),
        *(one for gone in renewals.farewells(short) for one in of_farewell(gone, person)),
        *(one for update in updates(text) for one in of_update(update, person)),
    )


def of_renewal(told: Mapping[str, Any], person: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the keys under which a renewal ends something, with the body except time and event."""
    for key in renewals.keys(frozenset(told["about"])):
        yield (
            key,
            {
                "how": renewals.RENEWAL, "own": person, "shared": True, "old": "", "new": "", "same": "",
                "states": False, **told,
            },
        )  # fmt: skip


def of_farewell(told: Mapping[str, Any], person: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the keys under which the end of something named ends statements, with the body except time and event."""
    speaks = normal_forms.words_of(person)
    for name in [name for name in told["names"] if speaks.isdisjoint(name.split())][:_NAMES]:
        yield (
            name,
            {
                "how": renewals.FAREWELL, "own": person, "shared": True, "about": told["about"], "old": "",
                "new": told["new"], "same": normal_forms.stems(told["new"]), "states": False,
            },
        )  # fmt: skip


def of_update(update: Update, person: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the keys under which an update ends something, with the body except time and event."""
    about = sorted(normal_forms.words_within(update.subject))
    said = {
        "how": update.how,
        "own": "" if update.ours or update.subject else person,
        "shared": not update.mine,
        "about": about,
        "old": update.old,
        "new": update.new,
        "same": normal_forms.stems(update.new) if update.new else "",
        "states": False,
    }
    if update.how in (DEED, LEAVE):
        words = sorted(normal_forms.words_of(update.old))
        yield words[0], {**said, "about": words}
    elif update.old:
        yield normal_forms.stems(update.old), {**said, "how": VALUE}
        words = update.old.split()
        if len(words) == _TWO and not about:  # `the batch operator`, `der Parameter limit`: a name and its kind
            for name, kind in (words, words[::-1]):
                yield normal_forms.stems(name), {**said, "how": VALUE, "old": name, "about": [normal_forms.stems(kind)]}
    elif update.how == VERSION:
        name = normal_forms.family(update.new)
        if name:
            yield name, {**said, "about": []}
        for one in (f"{name[2:]} version", name[2:]) if name else ():
            yield f"@ {one}", {**said, "about": [], "new": update.new.split()[-1].lstrip("v")}
    elif update.subject:
        yield normal_forms.of_thing(update.subject), said


def of_claim(claim: Claim, own: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield an ending for a value that replaces others although several may hold at once."""
    if claim.plural and claim.updates and not claim.denies:
        yield (
            normal_forms.of_slot(claim.subject, claim.predicate),
            {
                "how": _SLOT, "own": own, "shared": not own, "about": [], "old": "", "new": claim.value,
                "same": normal_forms.stems(claim.value), "states": True,
            },
        )  # fmt: skip


def touched(contribution: Contribution | None) -> Sequence[str]:
    """Return the forms that endings can reach it by; for an ending, those of its new value."""
    if contribution is None or contribution.withdrawn:
        return ()
    found: Sequence[str] = contribution.body.get("touches", ())
    return found


def beside(contributions: Sequence[Contribution], under: Under) -> list[Contribution]:
    """Return the endings that can reach these contributions (in event-time order) or what replaced them."""
    found: list[Contribution] = []
    seen: set[str] = set()
    keys = [key for one in reversed(contributions) for key in touched(one)]
    for number in range(KNOWLEDGE_CHAIN):
        fresh = [key for key in dict.fromkeys(keys) if key not in seen][: KNOWLEDGE_BESIDE - len(seen)]
        seen.update(fresh)
        read = [one for key in fresh for one in under(key, number > 0)[-KNOWLEDGE_ENDINGS:]]
        found += read
        keys = [key for one in read for key in touched(one)]
    return found
