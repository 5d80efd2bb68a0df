"""From a fingerprint to what importing it gives, and what tells two of them apart."""

from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from hmx_pipeline.contracts.artifact_content import why_not
from hmx_pipeline.contracts.fingerprint import PARTS, Fingerprint, Tier, fingerprint_hash
from hmx_pipeline.fingerprints.import_plan import UnreadableError, imports
from hmx_pipeline.fingerprints.make import fingerprint
from hmx_pipeline.intake.decode import Accepted, decode
from hmx_pipeline.local.samples import EXPECTED
from tests.support.learnt import learnt_of, learnt_of_history


@pytest.fixture(scope="module")
def made() -> Fingerprint:
    return fingerprint(learnt_of_history(), Tier.FULL)


def changed(made: Fingerprint, number: int, **fields: object) -> Fingerprint:
    """With other fields of one artifact."""
    listed = list(made.artifact_summaries.artifacts)
    listed[number] = listed[number].model_copy(update=fields)
    summaries = made.artifact_summaries.model_copy(update={"artifacts": listed})
    parts = {name: getattr(made, name) for name in PARTS} | {"artifact_summaries": summaries}
    return made.model_copy(update={"artifact_summaries": summaries, "fingerprint_hash": fingerprint_hash(parts)})


@pytest.mark.requirement("F-03")
def test_active_artifacts_and_priors_are_given_to_whom_it_is_said(made: Fingerprint) -> None:
    active = [one for one in made.artifact_summaries.artifacts if one.status == "active"]
    assert 0 < len(active) < len(made.artifact_summaries.artifacts)
    for agent in ("", "rookie"):
        *given, priors = imports(made, "newcomer", agent)
        assert [(one.pattern, one.content, one.confidence) for one in given] == [
            (one.pattern, one.content, one.confidence) for one in active
        ]
        assert priors.pattern == f"x-hmx-priors/{agent}"
        assert priors.content == made.context_priors.model_dump()
        for one in (*given, priors):
            assert (one.tenant_id, one.agent_id, one.fingerprint_hash) == ("newcomer", agent, made.fingerprint_hash)


def test_a_tier_without_priors_gives_none() -> None:
    compact = fingerprint(learnt_of_history(), Tier.COMPACT)
    assert not [one for one in imports(compact, "newcomer") if one.pattern.startswith("x-hmx-priors")]


@pytest.mark.parametrize("value", [2**64, "\ud800", float("nan")])
def test_a_document_that_has_no_canonical_form_is_not_valid(made: Fingerprint, value: object) -> None:
    told = made.model_dump()
    told["artifact_summaries"]["artifacts"][0]["content"]["x"] = value
    with pytest.raises(ValidationError, match="artifact_summaries"):
        Fingerprint.model_validate(told)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("failure_playbook", {"failure_pattern": "x", "recovery_slots": ["env"]}),
        ("failure_playbook", {"failure_pattern": "x", "recovery_slots": {"env": {"source": "goal"}}}),
        ("task_schema", {"steps": [], "slots": {"env": {"like": []}}}),
        ("task_schema", {"steps": [], "goals": [1]}),
        ("task_schema", {"steps": [], "recovery": [{"step": "x"}]}),
    ],
)
def test_what_a_pack_reads_of_a_content_is_checked_before_it_is_imported(kind: str, content: dict[str, Any]) -> None:
    assert why_not(kind, content)


@pytest.mark.requirement("V-02")
def test_another_major_version_is_refused(made: Fingerprint) -> None:
    assert imports(made.model_copy(update={"hmx_version": "HMX-1.7"}), "newcomer")
    with pytest.raises(UnreadableError, match=r"HMX-2.0 is not supported: HMX-1.x is"):
        imports(made.model_copy(update={"hmx_version": "HMX-2.0"}), "newcomer")


def test_content_that_no_pack_could_show_is_refused(made: Fingerprint) -> None:
    places = enumerate(made.artifact_summaries.artifacts)
    number = next(n for n, one in places if one.artifact_type == "task_schema" and one.status == "active")
    for content in ({}, {"steps": [{"order": 1}]}, {"steps": ["deploy"]}, {"steps": [], "preconditions": "none"}):
        with pytest.raises(UnreadableError, match="task_schema/"):
            imports(changed(made, number, content=content), "newcomer")


def test_whatever_is_compiled_can_be_imported_again() -> None:
    said = [orjson.loads(line) for line in EXPECTED.records if isinstance(decode(line), Accepted)]
    for tenant in sorted({each["tenant_id"] for each in said}):
        learnt, _ = learnt_of([each for each in said if each["tenant_id"] == tenant], tenant)
        assert [one.pattern for one in learnt.artifacts if why_not(one.artifact_type, one.content)] == []
        made = fingerprint(learnt, Tier.FULL)
        active = [one.pattern for one in made.artifact_summaries.artifacts if one.status == "active"]
        assert [one.pattern for one in imports(made, "newcomer")][: len(active)] == active
