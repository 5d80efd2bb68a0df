"""Scopes: whose a statement is, and what of the subjects' statements their tenant shares.

Input: what a segment says, and whose its session is; or a pattern's contributions. Output: what goes to the private and
what to the shared pattern (`scoped`); or the contributions that count in its scope (`in_scope`). What is stated in a
subject's session goes to a private pattern, whose key is prefixed by the scope, and as testimony to the pattern without
a scope. That one yields what sessions without a subject, typed events and a quorum of subjects state, or, in a team,
every subject. What is about somebody's own things is never testimony.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote

from hmx_pipeline.compiler.evidence_kind import Extracted
from hmx_pipeline.compiler.knowledge.authority import EVENT
from hmx_pipeline.compiler.knowledge.knowledge_kind import KnowledgeKind
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.keys import encoded
from hmx_pipeline.contracts.knowledge import Authority
from hmx_pipeline.contracts.limits import QUORUM

_MARK: Final = "\x1f"
"""Begins the keys of private patterns, and no other keys."""


def scope_key(subject: str, key: str) -> str:
    return f"{_MARK}{encoded(subject)}/{key}"


def scope_of(key: str) -> tuple[str, str]:
    """Return the subject of a key, empty if the pattern is the tenant's, and the key within the scope."""
    if not key.startswith(_MARK):
        return "", key
    subject, _, plain = key[len(_MARK) :].partition("/")
    return unquote(subject), plain


def scoped(found: Extracted, subject: str) -> Iterator[Extracted]:
    """Yield what a session of this subject contributes to the private pattern, and its testimony."""
    if found.key.startswith(_MARK):
        return
    if not subject:
        yield found
        return
    body, own = found.body, _owner(found.body, subject)
    private = {**body, "touches": [scope_key(subject, form) for form in body.get("touches", ())]}
    if own:
        private["own"] = own
    yield replace(found, key=scope_key(subject, found.key), body=private)
    if "endings" in body:
        body = {**body, "endings": [one for one in body["endings"] if one["shared"]]}
        if not body["endings"]:
            return
    if not own:
        yield replace(found, body=body)


def _owner(body: Mapping[str, Any], subject: str) -> str:
    """Return whose own thing it is about; empty if it is nobody's, or if it is no claim."""
    if "claims" not in body:
        return ""
    owner = body["subject"].partition("'s ")[0]
    return str(body["own"]) or (subject if owner.casefold() == subject.casefold() else "")


def is_typed(claim: Mapping[str, Any]) -> bool:
    """Return True for a claim of a typed event that counts as more than an assistant's."""
    return claim.get("by") in (EVENT, Authority.AGENT)


def in_scope(
    kind: KnowledgeKind, key: str, said: Sequence[Contribution], ended: Sequence[Contribution], *, team: bool
) -> tuple[Sequence[Contribution], Sequence[Contribution]]:
    """Return the contributions of a pattern, and of the endings beside them, that count in its scope."""
    if scope_of(key)[0]:
        private = (_private(kind, c, team=team) for c in said)
        return [c for c in private if c is not None], ended
    if team:
        return said, ended
    subjects: dict[str, list[Contribution]] = defaultdict(list)
    for c in said:
        if c.subject:
            subjects[c.subject].append(c)
    if not subjects:
        return said, [c for c in ended if not c.subject]
    stated: Counter[str] = Counter()
    if len(subjects) >= QUORUM:
        for subject, own in subjects.items():
            stated.update(kind.holds(own, [c for c in ended if c.subject == subject]))
    agreed = {name for name, count in stated.items() if count >= QUORUM}
    kept = [c if not c.subject else _only(kind, c, agreed) for c in said]
    standing = [c for c in kept if c.body[kind.items]]
    return kind.agreed_text(standing), [c for c in ended if not c.subject]


def _private(kind: KnowledgeKind, c: Contribution, *, team: bool) -> Contribution | None:
    """Return what is private of a contribution: all about the subject's own things, else what the tenant does not share
    already."""
    if c.body.get("own"):
        return c
    told = [one for one in c.body[kind.items] if not team and not is_typed(one)]
    if not told:
        return None
    return c if len(told) == len(c.body[kind.items]) else c.saying(**{kind.items: told})


def _only(kind: KnowledgeKind, c: Contribution, agreed: set[str]) -> Contribution:
    """Return the contribution with what a typed event or enough subjects state."""
    return c.saying(**{kind.items: [one for one in c.body[kind.items] if is_typed(one) or kind.named(one) in agreed]})
