"""Token budget of a pack: which candidates are placed, whole or cut (HMX-C §4). Integers only.

Input: sections in priority order with their ordered candidates. Output: placed and dropped candidates, and each
section's budget. The placed tokens never exceed the total, even if a section then has no entry.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

from msgspec.structs import replace

from hmx_pipeline.contracts.limits import PACK_ENTRIES
from hmx_pipeline.contracts.options import Section
from hmx_pipeline.contracts.pack import SectionBudget
from hmx_pipeline.packs.candidates import EntryCandidate
from hmx_pipeline.packs.render import cut
from hmx_pipeline.packs.tokens import estimate

WORTH_CUTTING: Final = 32
"""Tokens that must remain before one more entry of a section is cut to fit."""
_LEAST: Final = 12
"""Fewest tokens of a cut entry, and of the reserve for a section's first entry."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A section with its candidates, in the order of HMX-C §3.3."""

    section: Section
    weight: int
    candidates: Sequence[EntryCandidate]


@dataclass(slots=True)
class OpenSection:
    """A section that is being filled."""

    offer: Offer
    waiting: list[EntryCandidate]
    placed: list[EntryCandidate] = field(default_factory=list)

    @property
    def has_cut(self) -> bool:
        return any(candidate.is_cut for candidate in self.placed)

    @property
    def used(self) -> int:
        return sum(candidate.tokens for candidate in self.placed)


@dataclass(slots=True)
class RemainingBudget:
    tokens: int
    entries: int


Fill = Callable[[Sequence[OpenSection], RemainingBudget], None]
"""A strategy: places its entries first; what remains is filled the same way for all strategies."""


@dataclass(frozen=True, slots=True)
class Allocation:
    placed: tuple[EntryCandidate, ...]
    """In pack order; a cut candidate has the text and tokens of what is left."""
    dropped: tuple[EntryCandidate, ...]
    section_budgets: dict[str, SectionBudget]


def split(total: int, weights: Sequence[int]) -> list[int]:
    """Split `total` in proportion to the weights by largest remainder; ties go to the earlier. The parts add up to
    `total`."""
    whole = sum(weights)
    if whole == 0:
        return [0 for _ in weights]
    parts = [total * weight // whole for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda i: (-(total * weights[i] % whole), i))
    for i in by_remainder[: total - sum(parts)]:
        parts[i] += 1
    return parts


def allocate(offers: Sequence[Offer], total: int, entries: int = PACK_ENTRIES, fill: Fill | None = None) -> Allocation:
    """Place first entries, then those that always stand, then by shares, then what else fits, then one cut entry per
    section while enough tokens remain."""
    opened = [OpenSection(offer, list(offer.candidates)) for offer in offers if offer.candidates]
    room = RemainingBudget(total, entries)
    _place_firsts(opened, room)
    _place_standing(opened, room, room.tokens // 2)
    (fill or by_shares)(opened, room)
    _fill_rest(opened, room)
    for section in opened:
        if section.waiting and not section.has_cut and room.tokens >= WORTH_CUTTING:
            place(section, section.waiting[0], room.tokens, room)
    spare = split(room.tokens, [section.offer.weight for section in opened])
    budgets = {
        section.offer.section.value: SectionBudget(budget=section.used + part, used=section.used)
        for section, part in zip(opened, spare, strict=True)
    }
    return Allocation(
        placed=tuple(c for section in opened for c in sorted(section.placed, key=lambda c: c.order)),
        dropped=tuple(c for section in opened for c in section.waiting),
        section_budgets=budgets,
    )


def place(section: OpenSection, candidate: EntryCandidate, limit: int, room: RemainingBudget) -> bool:
    if room.entries == 0:
        return False
    placed = _whole(candidate, limit)
    if placed is None:
        text = cut(candidate.text, limit) if limit >= _LEAST else None
        if text is None:
            return False
        placed = replace(candidate, text=text, tokens=estimate(text), is_cut=True)
    section.placed.append(placed)
    section.waiting.remove(candidate)
    room.tokens -= placed.tokens
    room.entries -= 1
    return True


def _whole(candidate: EntryCandidate, limit: int) -> EntryCandidate | None:
    """Return the candidate, or its longest shorter form in whole lines that fits; None if there is none."""
    if candidate.tokens <= limit:
        return candidate
    for text in candidate.lines.shorter() if candidate.lines is not None and limit >= _LEAST else ():
        if (tokens := estimate(text)) <= limit:
            return replace(candidate, text=text, tokens=tokens, is_cut=True)
    return None


def _first(section: OpenSection, limit: int) -> EntryCandidate:
    """Return the best candidate. If it is too long, the way out that the question asks for comes before it, and what
    fits in whole lines before what would be cut."""
    best = section.waiting[0]
    if best.tokens <= limit or best.lines is None:
        return best
    fixing = [each for each in section.waiting if each.lines is not None and each.lines.fixes]
    return next((each for each in (*fixing, *section.waiting) if _whole(each, limit) is not None), best)


def _place_firsts(opened: Sequence[OpenSection], room: RemainingBudget) -> None:
    """Place one entry per section, in priority order. A long one leaves each later section its share, or less if it
    needs less."""
    reserved = []
    for section, share in zip(opened, split(room.tokens, [s.offer.weight for s in opened]), strict=True):
        need = section.waiting[0].tokens
        reserved.append(need if need <= share else share if share >= _LEAST else 0)
    for i, section in enumerate(opened):
        limit = room.tokens - sum(reserved[i + 1 :])
        place(section, _first(section, limit), limit, room)


def _place_standing(opened: Sequence[OpenSection], room: RemainingBudget, limit: int) -> None:
    """Place the candidates that are in every pack. They have no share, but leave half of the tokens to the query."""
    for section in opened:
        for candidate in [each for each in section.waiting if each.always]:
            if candidate.tokens <= limit and place(section, candidate, limit, room):
                limit -= candidate.tokens


def by_shares(opened: Sequence[OpenSection], room: RemainingBudget) -> None:
    """Divide what remains among the sections that still have candidates, until no share fits another one."""
    placed = -1
    while placed:
        wanting = [section for section in opened if section.waiting]
        shares = split(room.tokens, [section.offer.weight for section in wanting])
        placed = sum(_fill_section(section, share, room) for section, share in zip(wanting, shares, strict=True))


def _fill_rest(opened: Sequence[OpenSection], room: RemainingBudget) -> None:
    """Place whatever still fits whole."""
    rest = [(each.order, i, each) for i, section in enumerate(opened) for each in section.waiting]
    for _, i, each in sorted(rest, key=itemgetter(0, 1)):
        if each.tokens <= room.tokens:
            place(opened[i], each, room.tokens, room)


def _fill_section(section: OpenSection, share: int, room: RemainingBudget) -> int:
    """Fill one section up to its share; return the number of entries placed."""
    before, taken = len(section.placed), 0
    for candidate in list(section.waiting):
        if candidate.tokens <= share - taken and place(section, candidate, share - taken, room):
            taken += candidate.tokens
    return len(section.placed) - before
