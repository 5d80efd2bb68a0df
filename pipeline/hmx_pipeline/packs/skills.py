"""Skills in a pack: which may be followed, and how they read (taxonomy, Skill Memory).

Input: the knowledge record of a skill's version. A version is applicable, diagnostic or excluded by its status, its
citations, and whether it has ended. A pack only reads this: nothing but a `skill.*` event changes a skill.
"""

from collections.abc import Iterator
from typing import Any, Final

from hmx_pipeline.contracts.knowledge import KnowledgeRecord

SHOWN: Final = 5
"""Most applicable skills in a pack, the best."""
_EXCLUDED: Final = frozenset(("rejected", "conflicted", "deprecated", "contradicted", "stale", "superseded", "closed"))
_DIAGNOSTIC: Final = frozenset(("proposed", "pending", "deferred"))
_APPLICABLE: Final = frozenset(("validated", "revised", "accepted"))


def excluded(skill: KnowledgeRecord) -> str:
    """Return why nobody may follow it, in no case; empty if somebody may."""
    about = skill.body["properties"]
    status = about.get("status", "")
    if status in _EXCLUDED:
        return f"the skill is {status}"
    for reason, holds in (
        ("the skill is stale", about.get("stale") in (True, "true")),
        ("the skill cites nothing", not about.get("citations")),
        ("the skill has ended", "valid_to" in about),
        (f"{about.get('superseded_by')} has replaced the skill", "superseded_by" in about),
        ("the skill has no known status", status not in _DIAGNOSTIC | _APPLICABLE),
    ):
        if holds:
            return reason
    return ""


def is_applicable(skill: KnowledgeRecord) -> bool:
    return skill.body["properties"].get("status") in _APPLICABLE and not excluded(skill)


def lines(skill: KnowledgeRecord) -> Iterator[str]:
    """Yield the title, when it applies, its steps, and what to do when it fails."""
    about: dict[str, Any] = skill.body["properties"]
    titles = (about.get("name"), about.get("summary"), about.get("skill_id"))
    title = ": ".join(list(dict.fromkeys(str(one) for one in titles if one))[:2])
    yield title if is_applicable(skill) else f"{title} ({about.get('status')}, not validated)"
    if when := _listed(about.get("applicability")):
        yield f"When: {'; '.join(when)}"
    for number, step in enumerate(_listed(about.get("procedure")), 1):
        yield f"{number}. {step}"
    for name, what in (("It may fail", "failure_modes"), ("To go back", "rollback")):
        if said := _listed(about.get(what)):
            yield f"{name}: {'; '.join(said)}"


def _listed(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else [str(value)] if value else []
