"""own_value records: values that a task takes from its user, such as a home depot or cost centre.

Input: the contributions of one task: runs, and texts without a run. Output: one statement for each slot and user; none
where no user is known. For each slot that depends on the user, each user's last value: from runs, or from a text
without a run that names exactly one token like the other users' values, such as `depot-larch`.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from hmx_pipeline.compiler.evidence_kind import nothing
from hmx_pipeline.compiler.knowledge.knowledge_kind import KnowledgeKind, Statement, sureness
from hmx_pipeline.compiler.tasks.procedure import Procedure, procedure
from hmx_pipeline.compiler.tasks.slots import SESSIONS, common_start, up_to_separator
from hmx_pipeline.compiler.tasks.task_run import run_of, tokens
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.knowledge import Memory
from hmx_pipeline.contracts.options import Kind

NAME: Final = "own_value"


def state(contributions: Sequence[Contribution], _: Sequence[Contribution] = ()) -> list[Statement]:
    if not any(c.body.get("subject") for c in contributions):  # to look for them is most of the work of compiling
        return []
    found = procedure([run for run in map(run_of, contributions) if run.deeds])
    return [] if found is None else list(_statements(found, contributions))


def _statements(found: Procedure, contributions: Sequence[Contribution]) -> Iterator[Statement]:
    by_run = {(c.session_id, c.segment_id): c for c in contributions}
    for name, group in sorted(found.slots.items()):
        if group[0].source != "user":
            continue
        said: dict[str, list[tuple[str, Contribution]]] = {}
        for value, one in sorted(group[0].pairs, key=lambda pair: (pair[1].run.at, pair[1].run.name)):
            if one.run.subject:
                said.setdefault(one.run.subject, []).append((value, by_run[one.run.session, one.run.name]))
        for value, c in _told({value for own in said.values() for value, _ in own}, contributions):
            said.setdefault(c.body["subject"], []).append((value, c))
        for subject, own in sorted(said.items()):
            own.sort(key=lambda pair: (pair[1].first_at, pair[1].contribution_id))
            last = own[-1][0]
            sources = [c for value, c in own if value == last]
            yield _statement(name, subject, last, sources)


def _told(values: Collection[str], contributions: Sequence[Contribution]) -> Iterator[tuple[str, Contribution]]:
    begin = up_to_separator(common_start(sorted(values))) if len(values) >= SESSIONS else ""
    for c in contributions if begin else ():
        told = {
            token for text in c.body["told"] for token in tokens(text) if token.startswith(begin) and token != begin
        }
        if c.body["subject"] and not run_of(c).deeds and len(told) == 1:
            yield told.pop(), c


def _statement(name: str, subject: str, value: str, sources: Sequence[Contribution]) -> Statement:
    return Statement(
        name=f"{name} {subject}",
        kind=Kind.MEMORY,
        text=f"{subject}: {name.replace('_', ' ')} is {value}",
        body={
            "memory": Memory.FACT.value,
            "subject": subject,
            "predicate": name,
            "object": value,
            "negated": False,
            "said_by": [],
            "sessions": len({c.session_id for c in sources}),
        },
        confidence=round(sureness(len({c.session_id for c in sources})), 4),
        source_events=list(dict.fromkeys(event for c in sources for event in c.source_events)),
        sources=sources,
        start=sources[0].first_at,
        subject=subject,
    )


KIND: Final = KnowledgeKind(NAME, nothing, None, state, made_of="run")
