"""Import of a fingerprint into a tenant or one of its agents: one `Import` record for each active artifact.

Input: a `Fingerprint`, and the tenant and agent who receive it. Output: `Import` records, sorted by pattern, priors
last, for `kafka/control_producer` to append. Drafts are not imported, because they are guesses elsewhere; nor are
behavioral counts, because they belong to whoever did the work. Raises `UnreadableError`.
"""

from typing import Any

from hmx_pipeline.contracts.artifact_content import why_not
from hmx_pipeline.contracts.fingerprint import ArtifactSummary, ContextPriors, Fingerprint, Import, priors_pattern
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.contracts.versions import SUPPORTED_MAJOR, parse_version


class UnreadableError(ValueError):
    """The fingerprint has another major version (HMX-V), or an artifact's content is not of the form in HMX-A §4."""


def imports(fingerprint: Fingerprint, tenant_id: str, agent_id: str = "") -> list[Import]:
    """Return the imports by pattern, the priors last. `agent_id` limits them to one agent; empty: the whole tenant.
    Raises `UnreadableError`."""
    version = parse_version(fingerprint.hmx_version)
    if version is None or not version.supported:
        raise UnreadableError(f"{fingerprint.hmx_version} is not supported: HMX-{SUPPORTED_MAJOR}.x is")
    whom = {"tenant_id": tenant_id, "agent_id": agent_id, "fingerprint_hash": fingerprint.fingerprint_hash}
    about: dict[str, Any] = {**whom, "created_at": fingerprint.created_at}
    active = [one for one in fingerprint.artifact_summaries.artifacts if one.status is Status.ACTIVE]
    given = [_given(one, about) for one in sorted(active, key=lambda one: one.pattern)]
    if fingerprint.context_priors != ContextPriors():
        given.append(_priors(fingerprint, about))
    return given


def _given(one: ArtifactSummary, about: dict[str, Any]) -> Import:
    if wrong := why_not(one.artifact_type, one.content):
        raise UnreadableError(f"{one.pattern}: {wrong}")
    told = one.model_dump(exclude={"artifact_type", "content_hash", "status"})
    return Import.model_validate({**about, **told})


def _priors(fingerprint: Fingerprint, about: dict[str, Any]) -> Import:
    return Import(
        **about,
        pattern=priors_pattern(about["agent_id"]),
        title="Context priors",
        summary=f"What has mattered to whoever learnt fingerprint {fingerprint.fingerprint_id}.",
        content=fingerprint.context_priors.model_dump(mode="json"),
        confidence=1.0,
        observed_count=0,
        tags=[],
    )
