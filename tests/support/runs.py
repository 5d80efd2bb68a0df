"""What sessions did, a `run` contribution for each, and what the runs of a task are compiled to."""

from collections.abc import Iterable, Sequence

from hmx_pipeline.compiler import task_schema
from hmx_pipeline.compiler.candidate import candidate, counting
from hmx_pipeline.compiler.evidence_kind import ArtifactCandidate
from hmx_pipeline.compiler.extract import contributions
from hmx_pipeline.compiler.tasks import runs
from hmx_pipeline.contracts.evidence import Contribution, Pattern, Segment, SegmentOutcome
from tests.support.segments import START, Script

HOUR = 3_600_000
GOAL = "Deploy the checkout service to staging"
COMMANDS = ("kube get manifest checkout", "kube check namespace staging", "kube apply manifest checkout")


def run_of(segment: Segment) -> Contribution:
    """The one run that a segment is."""
    (one,) = (c for c in contributions(segment) if c.pattern_type == runs.NAME)
    return one


def run(
    number: int,
    commands: Iterable[str] = COMMANDS,
    goal: str = GOAL,
    outcome: SegmentOutcome = SegmentOutcome.SUCCESS,
    **about: str,
) -> Contribution:
    """Session `number` was asked for the goal an hour after the one before, and ran these command lines. `about`:
    `tenant` and `subject`."""
    made = Script(f"session-{number:03}", start=START + number * HOUR, **about)  # type: ignore[arg-type]
    made.user(goal)
    for line in commands:
        made.command(line)
    return run_of(made.segment()).model_copy(update={"outcome": outcome})


def tasks(told: Sequence[Contribution]) -> dict[Pattern, ArtifactCandidate]:
    """The procedures that a tenant's runs are compiled to, as the patterns stage does it."""
    found = {pattern: schema(own) for pattern, own in grouped(told).items()}
    return {pattern: one for pattern, one in found.items() if one is not None}


def grouped(told: Sequence[Contribution]) -> dict[Pattern, list[Contribution]]:
    """The runs of each task."""
    made = runs.group(counting(told))
    return {pattern: own for pattern, own in made.items() if pattern.type == task_schema.NAME}


def schema(told: Sequence[Contribution]) -> ArtifactCandidate | None:
    """Of the runs of one task."""
    return candidate(told, task_schema.NAME)
