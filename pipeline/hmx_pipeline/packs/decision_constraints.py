"""Decision constraints of a pack: at most twenty rules for the reader (HMX-C §7).

Standing instructions of operators, trusted agents and the reader come first and must not be overridden. Other rules,
and recommendations that have turned out best so far, may be.
"""

import re
from typing import Final

from hmx_pipeline.compiler import decision_policy
from hmx_pipeline.compiler.knowledge.authority import binds
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.limits import PACK_CONSTRAINTS
from hmx_pipeline.contracts.options import Kind
from hmx_pipeline.contracts.pack import DecisionConstraint
from hmx_pipeline.packs.candidates import Scored
from hmx_pipeline.packs.pack_view import PackView

_ALWAYS: Final = "always"
_WHEN: Final = re.compile(
    r"^((?:when|whenever|if|before|after|while|unless|until|during|for|on|in)\b[^,]+),|"
    r"\b((?:when|whenever|if|before|after|while|unless|until|during)\b.+)$",
    re.IGNORECASE,
)


def decision_constraints(view: PackView) -> list[DecisionConstraint]:
    found = [(_instructed(each), each.score) for each in view.knowledge if _stands(each)]
    for each in view.artifacts:
        if each.source.artifact_type != decision_policy.NAME or each.barred is not None or not each.helps:
            continue
        content = each.source.content
        if content.get("recommendation"):
            told = DecisionConstraint(
                artifact_id=each.source.artifact_id,
                condition=content.get("condition") or each.source.title,
                constraint=content["recommendation"],
                confidence=each.source.confidence,
                override_allowed=True,
            )
            found.append((told, each.score))
    found.sort(key=lambda one: (one[0].override_allowed, -one[1], one[0].artifact_id))
    return [told for told, _ in found[:PACK_CONSTRAINTS]]


def _stands(each: Scored[KnowledgeRecord]) -> bool:
    return each.source.kind is Kind.POLICY and each.barred is None


def _instructed(each: Scored[KnowledgeRecord]) -> DecisionConstraint:
    source = each.source
    when = _WHEN.search(source.text)
    return DecisionConstraint(
        artifact_id=source.record_id,
        condition=(when[1] or when[2]) if when else _ALWAYS,
        constraint=source.text,
        confidence=source.confidence,
        override_allowed=not binds(source),
    )
