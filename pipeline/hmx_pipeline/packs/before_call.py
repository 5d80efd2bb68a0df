"""What a pack tells before a tool call: what users said of the same command or file, and how that command fails.

Input: a pack view and the call. Output: the view without everything else. What merely resembles a call comes before
nearly every call, so it is told when somebody asks. Once the call has failed, only what users said of others is left
out.
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from hmx_pipeline.compiler import failure_playbook
from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.keys import split_key
from hmx_pipeline.contracts.knowledge import KnowledgeRecord, is_correction
from hmx_pipeline.contracts.options import Kind
from hmx_pipeline.packs.candidates import Scored, Source
from hmx_pipeline.packs.knowledge_view import ELSEWHERE
from hmx_pipeline.packs.pack_view import PackView
from hmx_pipeline.retrieval.terms import terms
from hmx_pipeline.segments.commands import first_end, within
from hmx_pipeline.segments.file_paths import file_named, files_in
from hmx_pipeline.segments.targets import CallTargets, Height, Target, names_in


def before_call(seen: PackView, call: CallTargets) -> PackView:
    targets = call.targets
    if call.failed:
        others = (one for one in seen.knowledge if is_correction(one.source))
        gone = {one.source.record_id for one in others if not _concerns(one.source, targets, seen.asked)}
        return replace(seen, knowledge=tuple(one for one in seen.knowledge if one.source.record_id not in gone))
    return replace(
        seen,
        artifacts=tuple(_helping(one) for one in seen.artifacts if _fails(one.source, targets)),
        knowledge=tuple(_helping(one) for one in seen.knowledge if _concerns(one.source, targets, seen.asked)),
        episodes=(),
    )


def _helping(one: Scored[Source]) -> Scored[Source]:
    return msgspec.structs.replace(one, least=0.0, barred=None if one.barred is ELSEWHERE else one.barred)


def _fails(source: Artifact, targets: Sequence[Target]) -> bool:
    """Return True if it is about failures of one of the commands, each with its subcommand."""
    if source.artifact_type != failure_playbook.NAME:
        return False
    said = split_key(str(source.metadata.get("pattern", "")))[-1].split("\n")
    return any(_is_specific(one) and f"run {one.name}" in said for one in targets)


def _concerns(record: KnowledgeRecord, targets: Sequence[Target], call: frozenset[str]) -> bool:
    """`call`: the stems of the call. A ban concerns a call that has all of its words."""
    if is_correction(record):
        own = (one for one in targets if one.name == record.body["target"])
        return any(_is_specific(one) or _names(record.body["said"], one) for one in own)
    if record.kind is not Kind.POLICY:
        return False
    banned = frozenset(terms(str(record.body.get("subject", "")))) if record.body.get("negated") else frozenset()
    return bool(banned and banned <= call) or any(_names(record.text, one) for one in targets)


def _is_specific(target: Target) -> bool:
    """Return False for a tool, and for a program whose subcommand is not known: each does many things."""
    return " " in target.name or bool(file_named(target.name))


def _names(text: str, target: Target) -> bool:
    """Return True if a text names the file, the tool, the command, or its program without a word that follows: programs
    have the names of common words (`make sure`), and do many things (`git log`)."""
    name, low = target.name, text.casefold()
    if file_named(name):
        return any(f"/{name}".endswith(f"/{each}") or f"/{each}".endswith(f"/{name}") for each in files_in(text))
    if name == target.tool:
        return (Height.TOOL, name) in names_in(text)
    if " " in name and within(name, low):
        return True
    end = first_end(name.split()[0], low)
    return end > 0 and not (low[end : end + 1].isspace() and low[end:].lstrip()[:1].isalnum())
