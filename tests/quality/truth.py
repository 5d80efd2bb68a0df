"""P1 and P2: is what was hidden in planted sessions found, and nothing where order and outcomes are permuted?

Both stages fold the events in process; what is judged is the live artifacts that they publish. Nothing fails.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from tests.quality.figures import Bar, Case, Figure, mean, paired
from tests.quality.planted import CHECK, Procedure, Question, World, permuted, world
from tests.quality.sessions import Sessions
from tests.support.inprocess import artifacts_of

TASK: Final = "P1 planted truth"
CONTROL: Final = "P2 permuted"
NOISE: Final = (0.1, 0.25, 0.4)
JUDGED: Final = 0.25
"""The noise that the bar on steps and order is set at."""
SEEDS: Final = range(4)

Artifact = dict[str, Any]


@dataclass(frozen=True)
class Size:
    seeds: Iterable[int] = SEEDS
    noise: Iterable[float] = NOISE
    sessions: int = 72
    procedures: int = 6


WHOLE: Final = Size()


def task(_: Sessions, size: Size = WHOLE) -> Iterator[Figure]:
    for noise in size.noise:
        made = [(f"world {seed}", world(seed, noise, size.sessions, size.procedures)) for seed in size.seeds]
        found = [(name, one, learnt(one)) for name, one in made]
        yield from _figures(f"noise {noise:.0%}", noise, found)
        if noise == JUDGED:
            turned = [learnt(world(seed, noise, size.sessions, size.procedures, flipped=True)) for seed in size.seeds]
            cases = [case for one, known in zip(found, turned, strict=True) for case in _flips(*one, known)]
            yield mean(TASK, f"noise {noise:.0%}", "flipped outcomes flip the advice", cases, Bar(least=0.95))


def control(_: Sessions, size: Size = WHOLE) -> Iterator[Figure]:
    policies: list[Case] = []
    causes: list[Case] = []
    for seed in size.seeds:
        for again in range(2):
            made = permuted(world(seed, JUDGED, size.sessions, size.procedures), 10 * seed + again)
            found = learnt(made)
            name = f"world {seed}"
            asked = {question.text for p in made.procedures for question in p.questions}
            active = {a["content"]["condition"] for a in _active(found, "decision_policy")}
            policies += [Case(name, float(question in active)) for question in sorted(asked)]
            struck = [f"{n}" for n in range(len(_subjects(made)))]
            wrong = len(_active(found, "causal_pattern"))
            causes += [Case(name, float(n < wrong)) for n in range(max(len(struck), wrong))]
    yield mean(CONTROL, "noise 25 %", "active decision_policy", policies, Bar(most=0.05))
    yield mean(CONTROL, "noise 25 %", "active causal_pattern", causes, Bar(most=0.05))


def _subjects(made: World) -> list[str]:
    """What a causal pattern could be about."""
    return sorted({move.name for _, moves in made.sessions for move in moves if move.kind in ("tool", "test")})


def learnt(made: World) -> list[Artifact]:
    """Live artifacts, as both stages publish them."""
    latest = {artifact["artifact_id"]: artifact for artifact in artifacts_of(made.events(), partitions=1)}
    return [artifact for _, artifact in sorted(latest.items()) if artifact["status"] in ("draft", "active")]


def _active(found: Iterable[Artifact], kind: str) -> list[Artifact]:
    return [a for a in found if a["artifact_type"] == kind and a["status"] == "active"]


def _figures(of: str, noise: float, found: Sequence[tuple[str, World, list[Artifact]]]) -> Iterator[Figure]:
    steps = [case for name, made, known in found for case in _steps(name, made, known)]
    order = [case for name, made, known in found for case in _order(name, made, known)]
    bar = Bar(least=0.95) if noise <= JUDGED else None
    yield paired(TASK, of, "F1 of steps", steps, bar)
    yield paired(TASK, of, "F1 of order", order, bar)
    recoveries = [case for name, made, known in found for case in _recoveries(name, made, known)]
    yield paired(TASK, of, "better recovery first", recoveries, Bar(least=0.95))
    options = [case for name, made, known in found for case in _options(name, made, known)]
    yield paired(TASK, of, "better option first", options, Bar(least=0.95))
    counts = [case for name, made, known in found for case in _counts(name, made, known)]
    yield mean(TASK, of, "counts and rates exact", counts, Bar(least=1.0))
    yield mean(TASK, of, "planted causes found", [c for f in found for c in _recall(*f)], Bar(least=0.95))
    yield mean(TASK, of, "causes found are planted", [c for f in found for c in _precision(*f)], Bar(least=0.95))
    yield mean(TASK, of, "exceptions are told", [c for f in found for c in _exceptions(*f)])


def _tools(artifact: Artifact | None) -> list[str]:
    return [step["tools_used"][0] for step in artifact["content"]["steps"]] if artifact is not None else []


def _schema(procedure: Procedure, found: Iterable[Artifact]) -> Artifact | None:
    words = set(procedure.goal.lower().split()[1:])
    return next(
        (a for a in found if a["artifact_type"] == "task_schema" and words <= set(a["title"].lower().split())), None
    )


def _modal(made: World, place: int) -> list[str]:
    """The baseline: the sequence that most sessions ran."""
    ran = Counter(
        tuple(dict.fromkeys(move.name for move in moves if move.kind == "tool" and move.ok))
        for own, moves in made.sessions
        if own == place
    )
    return list(min(ran, key=lambda steps: (-ran[steps], steps)))


def _steps(name: str, made: World, found: Sequence[Artifact]) -> Iterator[Case]:
    for place, procedure in enumerate(made.procedures):
        hidden = set(procedure.steps)
        mined = set(_own(procedure, _tools(_schema(procedure, found))))
        yield Case(name, _f1(hidden, mined), _f1(hidden, set(_own(procedure, _modal(made, place)))))


def _own(procedure: Procedure, steps: Sequence[str]) -> list[str]:
    """Without what was planted besides the procedure and is done in many of its sessions."""
    cause, failure = procedure.cause, procedure.failure
    besides = (cause.deed, cause.struck, cause.guard, failure.better, failure.worse, CHECK)
    return [step for step in steps if step not in besides]


def _order(name: str, made: World, found: Sequence[Artifact]) -> Iterator[Case]:
    for place, procedure in enumerate(made.procedures):
        hidden = set(combinations(procedure.steps, 2))
        mined = set(combinations(_own(procedure, _tools(_schema(procedure, found))), 2))
        modal = set(combinations(_own(procedure, _modal(made, place)), 2))
        yield Case(name, _f1(hidden, mined), _f1(hidden, modal))


def _f1(hidden: set[Any], found: set[Any]) -> float:
    return 2 * len(hidden & found) / (len(hidden) + len(found)) if hidden or found else 1.0


def _recoveries(name: str, made: World, found: Sequence[Artifact]) -> Iterator[Case]:
    for place, procedure in enumerate(made.procedures):
        failure = procedure.failure
        books = [
            a
            for a in found
            if a["artifact_type"] == "failure_playbook" and failure.error in a["content"]["failure_pattern"]
        ]
        first = next((a["content"]["recovery_steps"][:1] for a in books), [])
        tried = Counter(
            move.name for own, moves in made.sessions if own == place for move in moves
            if move.name in (failure.better, failure.worse)
        )  # fmt: skip
        modal = min(tried, key=lambda way: (-tried[way], way), default="")
        better = failure.better.replace("_", " ")
        yield Case(name, float(any(better in words.lower() for words in first)), float(modal == failure.better))


def _questions(made: World) -> list[Question]:
    return [question for procedure in made.procedures for question in procedure.questions]


def _advice(question: Question, found: Iterable[Artifact]) -> dict[str, Any]:
    """The policy's content; empty where there is none."""
    policies = (a["content"] for a in found if a["artifact_type"] == "decision_policy")
    return next((content for content in policies if content["condition"] == question.text), {})


def _advised(question: Question, found: Iterable[Artifact]) -> str:
    return str(_advice(question, found).get("recommendation", "")).removeprefix("Choose ")


def _options(name: str, made: World, found: Sequence[Artifact]) -> Iterator[Case]:
    """The baseline advises what was chosen most."""
    for question in _questions(made):
        chosen = made.chosen[question.text]
        modal = min(chosen, key=lambda option: (-len(chosen[option]), option))
        yield Case(name, float(_advised(question, found) == question.best), float(modal == question.best))


def _flips(name: str, made: World, found: Sequence[Artifact], turned: Sequence[Artifact]) -> Iterator[Case]:
    """Advice on turned outcomes is for an option that paid less, and so now pays more; where all pay badly then, it is
    withdrawn."""
    for question in _questions(made):
        payoffs = dict(zip(question.options, question.payoffs, strict=True))
        before, after = (payoffs.get(_advised(question, known), 0.0) for known in (found, turned))
        yield Case(name, float(after < before))


def _counts(name: str, made: World, found: Sequence[Artifact]) -> Iterator[Case]:
    """Of every option how often it was chosen and how often it worked, to four digits."""
    for question in _questions(made):
        told = {o["description"]: o for o in _advice(question, found).get("alternatives", ())}
        for option, outcomes in sorted(made.chosen[question.text].items()):
            said = told.get(option, {})
            rate = round(sum(outcomes) / len(outcomes), 4)
            yield Case(name, float((said.get("chosen_count"), said.get("success_rate")) == (len(outcomes), rate)))


def _pairs(made: World) -> set[tuple[str, str]]:
    """Cause and effect in words that the artifacts have."""
    return {(p.cause.deed, p.cause.state or p.cause.error) for p in made.procedures}


def _true(artifact: Artifact, made: World) -> bool:
    """Planted as a cause, or else as an option or a recovery that often fails."""
    cause, effect = artifact["content"]["cause"].lower(), artifact["content"]["effect"].lower()
    for p in made.procedures:
        worse = [option for question in p.questions for option in question.options if option != question.best]
        planted = [
            (p.cause.deed, p.cause.state or p.cause.error),
            (p.failure.worse, p.failure.error),
            *((option, CHECK) for option in worse),
        ]
        if any(a.replace("_", " ").lower() in cause and b.lower() in effect for a, b in planted):
            return True
    return False


def _recall(name: str, made: World, found: Sequence[Artifact]) -> Iterator[Case]:
    said = [(a["content"]["cause"].lower(), a["content"]["effect"].lower()) for a in _active(found, "causal_pattern")]
    for deed, effect in sorted(_pairs(made)):
        known = any(deed.replace("_", " ") in cause and effect.lower() in what for cause, what in said)
        yield Case(name, float(known))


def _precision(name: str, made: World, found: Sequence[Artifact]) -> Iterator[Case]:
    for artifact in _active(found, "causal_pattern"):
        yield Case(name, float(_true(artifact, made)))


def _exceptions(name: str, made: World, found: Sequence[Artifact]) -> Iterator[Case]:
    """The guard that was planted stands in the conditions."""
    for procedure in made.procedures:
        guard = procedure.cause.guard.replace("_", " ")
        for artifact in _active(found, "causal_pattern"):
            if procedure.cause.deed.replace("_", " ") in artifact["content"]["cause"].lower():
                yield Case(name, float(any(guard in words.lower() for words in artifact["content"]["conditions"])))
