"""The most useful things that a tenant's memory has learnt, as `hmx mine` shows them.

Enters: settings of a stack in which everything is learnt. Leaves: lessons, the best fix, procedure, rule, correction
and fact in turn. A fix that helped in one session only comes after those of several: packs do not tell it yet.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from hmx_pipeline.cli.console import OUT, many, plain
from hmx_pipeline.compiler import failure_playbook, task_schema
from hmx_pipeline.compiler.first_fixes import FirstFix, first_fix
from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.evidence import Contribution, Pattern
from hmx_pipeline.contracts.knowledge import Memory
from hmx_pipeline.contracts.options import ENTRY_MARK, Section, Standing, Status
from hmx_pipeline.settings import Settings

SHOWN: Final = 10
AS_RULE: Final = -70
"""Score above which words read as a rule; below it they speak of the moment (compiler.knowledge.classifier)."""
_WORDS: Final = 160
"""Characters of a correction; a longer one is about the task of the day."""
_STEPS: Final = 8
"""Steps of a procedure among which one has to be a command that every session runs."""
_RUN: Final = re.compile(r"`([^`]+)`")
Json = dict[str, Any]


class ShownLesson(NamedTuple):
    kind: str
    text: str
    """The first line is its title."""
    support: str


def show(settings: Settings, tenant: str) -> None:
    learnt = best(settings, tenant)
    OUT.print(
        f"\n[bold]The {many(len(learnt), 'most useful thing')} learnt[/]" if learnt else "\nNothing useful was learnt."
    )
    for number, (kind, text, support) in enumerate(learnt, 1):
        first, *rest = text.splitlines()
        OUT.print(f"\n{number:>2}. [bold]{plain(first)}[/]  [dim]{kind}, {plain(support)}[/]", soft_wrap=True)
        for line in rest:
            OUT.print(f"    {plain(line)}", soft_wrap=True)
    if len(learnt) < SHOWN:
        OUT.print("\nThere is no more that is worth showing: more sessions teach more.")


def best(settings: Settings, tenant: str) -> list[ShownLesson]:
    from hmx_pipeline.store.fetch import Store

    store = Store.open(settings)
    if tenant not in store.tenants():
        return []
    playbooks, procedures = (_artifacts(store, tenant, each) for each in (failure_playbook.NAME, task_schema.NAME))
    told = {one["metadata"]["pattern"] for one, _ in playbooks}
    proven = [each for each in playbooks if _has_command(each[1])]
    calls = [each for each in playbooks if not _has_command(each[1])]  # mostly how to look at something
    fixes = [*_lessons("fix", proven), *_first_fixes(settings, tenant, told), *_lessons("fix", calls)]
    # Two fixes a turn: they are what most sessions are about, and say what to run.
    kinds = [fixes[::2], _lessons("procedure", procedures), fixes[1::2], _rules(store, tenant), *_told(store, tenant)]
    turns = [[kind[turn] for kind in kinds if turn < len(kind)] for turn in range(SHOWN)]
    return [one for turn in turns for one in turn][:SHOWN]


def _artifacts(store: Any, tenant: str, artifact_type: str) -> list[tuple[Json, str]]:
    """Returns those that say what to run, with their texts, the most certain first."""
    from hmx_pipeline.packs.render import artifact as rendered

    statuses = (Status.ACTIVE, Status.DRAFT)
    found = [one for status in statuses for one in store.all_artifacts(tenant, artifact_type, status)]
    texts = [(one, rendered(Artifact.model_validate(one))) for one in found if _runs_something(one["content"])]
    runnable = [(one, text) for one, text in texts if "`" in text.partition("\n")[2]]
    return sorted(runnable, key=lambda each: (each[0]["status"], -each[0]["confidence"], each[1]))  # active, draft


def _has_command(text: str) -> bool:
    """Returns whether something is run in a shell; a call of a tool has its arguments in parentheses."""
    return any("(" not in run.split()[0] for run in _RUN.findall(text) if run.strip())


def _lessons(kind: str, artifacts: Sequence[tuple[Json, str]]) -> list[ShownLesson]:
    return [
        ShownLesson(kind, text, f"in {many(one['metadata']['checked']['sessions'], 'session')}")
        for one, text in artifacts
    ]


def _runs_something(content: Json) -> bool:
    """Return False for a procedure without a command that every session runs: it only looks and edits."""
    steps = content.get("steps")
    return steps is None or any("command" in step and not step["optional"] for step in steps[:_STEPS])


def _first_fixes(settings: Settings, tenant: str, told: Collection[str]) -> list[ShownLesson]:
    """Returns the plainest fix of each error, the plainest first, but of those that are `told` otherwise."""
    fixes = {(one.pattern_key, fix) for one in _failures(settings, tenant) if (fix := first_fix(one)) is not None}
    plainest: dict[str, FirstFix] = {}
    untold = [each for each in fixes if Pattern(failure_playbook.NAME, each[0]).text not in told]
    for error, fix in sorted(untold, key=lambda each: (-each[1].likeness, each)):
        plainest.setdefault(error, fix)
    return [
        ShownLesson(
            "fix", f"`{fix.failed}` fails\nError: {fix.error}\nWorked: {_then(fix.worked)}", "in 1 session so far"
        )
        for fix in plainest.values()
    ]


def _then(lines: tuple[str, ...]) -> str:
    return ", then ".join(f"`{line}`" for line in lines)


def _failures(settings: Settings, tenant: str) -> Iterator[Contribution]:
    from hmx_pipeline.runtime.state_topics import state_records
    from hmx_pipeline.stages.pattern_state import decode_state
    from hmx_pipeline.stages.state_tables import latest
    from hmx_pipeline.topology import PATTERNS

    for key, record in latest(state_records(settings, PATTERNS, tenant), ("m/",), tenant).items():
        value = decode_state(key, record.value or b"")
        if isinstance(value, Contribution) and value.pattern_type == failure_playbook.NAME and not value.withdrawn:
            yield value


def _rules(store: Any, tenant: str) -> list[ShownLesson]:
    """Returns what a pack says whatever is asked."""
    from hmx_pipeline.queries.context_pack import make_pack
    from hmx_pipeline.retrieval.pack_request import PackRequest

    pack = make_pack(store, PackRequest(query="rules", tenant_id=tenant, sections=[Section.CORE], token_budget=2_000))
    return [ShownLesson("rule", one.content.removeprefix(ENTRY_MARK).lstrip(), "said by you") for one in pack.entries]


def _told(store: Any, tenant: str) -> list[list[ShownLesson]]:
    """Returns what users said when they refused an action, if it reads as a rule, and facts; the clearest first."""
    from hmx_pipeline.compiler.knowledge.classifier import scores

    records = store.knowledge_records(tenant, sorted(store.knowledge_ids(tenant, [Standing.ACTIVE])))
    bodies = [one["body"] for one in records if one["body"].get("memory") == Memory.CORRECTION]
    said = [(scores(body["said"]).rule, body) for body in bodies if len(body["said"]) <= _WORDS]
    clear = {
        body["target"]: (score, body["said"]) for score, body in sorted(said, key=itemgetter(0)) if score > AS_RULE
    }
    corrections = [(f"{target}: {words}", score) for target, (score, words) in clear.items()]
    facts = [(one["text"], scores(one["text"]).fact) for one in records if one["body"].get("memory") == Memory.FACT]
    return [
        [ShownLesson(called, text, "said by you") for text, _ in sorted(found, key=itemgetter(1), reverse=True)]
        for called, found in (("correction", corrections), ("fact", facts))
    ]
