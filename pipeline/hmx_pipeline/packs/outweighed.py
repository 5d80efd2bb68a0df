"""Statements of a pack that somebody with more authority contradicts.

A subject's own statement and that of its tenant are compiled apart, so neither ends the other. Where both are about the
same thing and differ, a pack shows the one with more authority.
"""

from collections.abc import Iterable, Mapping

from hmx_pipeline.compiler.knowledge.authority import authority_of, who
from hmx_pipeline.compiler.knowledge.scopes import scope_of
from hmx_pipeline.contracts.keys import split_key
from hmx_pipeline.contracts.knowledge import KnowledgeRecord

_VALUE = "object"


def leaders(holding: Iterable[KnowledgeRecord]) -> dict[str, KnowledgeRecord]:
    """Map what statements are about to the one with the most authority; of several to the first."""
    found: dict[str, KnowledgeRecord] = {}
    for record in holding:
        if _VALUE in record.body and authority_of(record) is not None:
            first = found.setdefault(_about(record), record)
            if _rank(record) > _rank(first):
                found[_about(record)] = record
    return found


def outweighed(record: KnowledgeRecord, leading: Mapping[str, KnowledgeRecord]) -> str:
    """Return who says otherwise with more authority; empty if nobody does."""
    if _VALUE not in record.body or authority_of(record) is None:
        return ""
    leader = leading.get(_about(record), record)
    authority = authority_of(leader)
    if authority is None or _rank(leader) <= _rank(record) or _said(leader) == _said(record):
        return ""
    return who(authority)


def _about(record: KnowledgeRecord) -> str:
    """Return the pattern's key without its scope."""
    kind, key = split_key(record.pattern)
    return f"{kind} {scope_of(key)[1]}"


def _rank(record: KnowledgeRecord) -> int:
    authority = authority_of(record)
    return -1 if authority is None else authority.rank


def _said(record: KnowledgeRecord) -> tuple[str, bool]:
    return str(record.body[_VALUE]).casefold(), bool(record.body.get("negated"))
