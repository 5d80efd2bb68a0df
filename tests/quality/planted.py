"""Sessions from hidden procedures, failures, decisions and causes, in invented words, with noise; and what was hidden.

Enters: a seed, a share of noise, and how many sessions each procedure has. Leaves: sessions as moves, from which come
HMX events, and the truth about them. The same seed gives the same world. `permuted` keeps every move and every outcome
and puts them elsewhere: what is found there is found by chance.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.records import START_MS, event

_SESSION_MS = 3_600_000
_RECOVERIES = (0.9, 0.3)
"""How often the better and the worse way out of a failure work."""
_PAYOFFS = ((0.9, 0.3), (0.85, 0.45, 0.3), (0.8, 0.35))
_AT_THE_END = (1.0, 0.75)
"""Of options whose outcome is that of the work: most of it succeeds, or there would be no procedure to find."""
_EFFECT, _BASE, _UNDER_GUARD = 0.9, 0.05, 0.0
CHECK = "zapcheck"


@dataclass(frozen=True)
class Move:
    """One thing that happens in a session. `about`: the place of the move that it names as what it is about."""

    kind: str
    name: str = ""
    text: str = ""
    ok: bool = True
    error: str = ""
    offered: tuple[str, ...] = ()
    about: int | None = None
    """Only feedback and tests name one: the decision that they judge."""


@dataclass(frozen=True)
class Failure:
    step: str
    error: str
    better: str
    worse: str


@dataclass(frozen=True)
class Question:
    text: str
    options: tuple[str, ...]
    payoffs: tuple[float, ...]
    link: str
    """How its outcome is said: by feedback on it, by a test that names it, by the next test, or by how the work ends,
    where nothing fails in between."""

    @property
    def best(self) -> str:
        return max(zip(self.payoffs, self.options, strict=True))[1]


@dataclass(frozen=True)
class Cause:
    """Doing `deed` makes `struck` fail with `error` soon after, or the state change; not if `guard` was done before."""

    deed: str
    struck: str
    error: str
    state: str
    guard: str


@dataclass(frozen=True)
class Procedure:
    goal: str
    steps: tuple[str, ...]
    failure: Failure
    questions: tuple[Question, ...]
    cause: Cause


@dataclass
class World:
    procedures: tuple[Procedure, ...]
    sessions: list[tuple[int, list[Move]]] = field(default_factory=list)
    """Each with the place of its procedure."""
    chosen: dict[str, dict[str, list[bool]]] = field(default_factory=dict)
    """Question → option → how it turned out each time."""

    def events(self) -> list[dict[str, Any]]:
        return [one for n, (_, moves) in enumerate(self.sessions) for one in _events(n, moves)]


def world(seed: int, noise: float, sessions: int = 40, procedures: int = 6, flipped: bool = False) -> World:
    """With `flipped`, every decision turns out the other way; all else is the same."""
    dice = random.Random(seed)
    words = _words(dice)
    made = World(tuple(_procedure(n, dice, words) for n in range(procedures)))
    for number in range(sessions):
        for place, procedure in enumerate(made.procedures):
            own = random.Random(f"{seed} {place} {number}")
            made.sessions.append((place, _session(made, procedure, number, noise, own, flipped)))
    return made


def permuted(made: World, seed: int) -> World:
    """What was done stands in another order within each session, and outcomes stand with other moves of their kind."""
    dice = random.Random(seed)
    shuffled = []
    for place, moves in made.sessions:
        slots = [n for n, move in enumerate(moves) if move.kind in ("tool", "state")]
        others = [moves[n] for n in slots]
        dice.shuffle(others)
        new = list(moves)
        for slot, move in zip(slots, others, strict=True):
            new[slot] = move
        shuffled.append((place, new))
    for kind in ("tool", "test", "feedback"):
        at = [(n, m) for n, (_, moves) in enumerate(shuffled) for m, move in enumerate(moves) if move.kind == kind]
        outcomes = [(shuffled[n][1][m].ok, shuffled[n][1][m].error) for n, m in at]
        dice.shuffle(outcomes)
        for (n, m), (ok, error) in zip(at, outcomes, strict=True):
            shuffled[n][1][m] = replace(shuffled[n][1][m], ok=ok, error=error)
    return World(made.procedures, shuffled)


def _words(dice: random.Random) -> Iterator[str]:
    """Words that no lexicon has, each once."""
    known: set[str] = set()
    while True:
        word = "".join(dice.choice("bdfgjklmnprtvz") + dice.choice("aeiou") for _ in range(2)) + dice.choice("klmrtx")
        word += dice.choice("bdgkmt") + dice.choice("aou") + dice.choice("klmnx")
        if word[:5] not in known:
            known.add(word[:5])
            yield word


def _procedure(number: int, dice: random.Random, words: Iterator[str]) -> Procedure:
    def tool() -> str:
        return f"{next(words)}_{next(words)}"

    steps = tuple(tool() for _ in range(dice.randint(5, 8)))

    def question(link: str, payoffs: Sequence[float]) -> Question:
        text = f"Which {next(words)} should the {next(words)} get?"
        mixed = tuple(dice.sample(payoffs, len(payoffs)))
        return Question(text, tuple(next(words) for _ in mixed), mixed, link)

    even = number % 2 == 0
    return Procedure(
        goal=f"Please {next(words)} the {next(words)}",
        steps=steps,
        failure=Failure(steps[dice.randrange(1, len(steps))], f"{next(words).title()}Error", tool(), tool()),
        questions=(
            question("feedback" if even else "parent", _PAYOFFS[number % 3]),
            question("next", _PAYOFFS[(number + 1) % 3]) if even else question("end", _AT_THE_END),
        ),
        cause=Cause(tool(), tool(), f"{next(words).title()}Fault", next(words) if even else "", tool()),
    )


def _session(
    made: World, procedure: Procedure, number: int, noise: float, dice: random.Random, flipped: bool
) -> list[Move]:
    moves = [Move("user", text=procedure.goal)]
    recovered = True
    for step in _disturbed(procedure.steps, noise, dice):
        if step == procedure.failure.step and dice.random() < 0.4:
            recovered = _fail(moves, procedure.failure, noise, dice)
        else:
            moves.append(Move("tool", step))
    good = recovered and dice.random() < 0.95
    later = procedure.questions[1]
    for question in procedure.questions:
        option = dice.randrange(len(question.options))
        ok = (dice.random() < question.payoffs[option]) is not flipped
        made.chosen.setdefault(question.text, {}).setdefault(question.options[option], []).append(ok)
        link = "feedback" if question.link == "end" and not recovered else question.link
        good = _decide(moves, replace(question, link=link), option, ok, good, dice)
    early = next((n for n, move in enumerate(moves) if move.kind == "decide" and move.name == later.text), len(moves))
    _insert(moves, dice.randrange(1, early + 1), _caused(procedure.cause, dice))
    return [*moves, Move("feedback", ok=good)]


def _insert(moves: list[Move], at: int, block: Sequence[Move]) -> None:
    """What moves name by its place, they name by its new place."""
    for n, move in enumerate(moves):
        if move.about is not None and move.about >= at:
            moves[n] = replace(move, about=move.about + len(block))
    moves[at:at] = block


def _disturbed(steps: Sequence[str], noise: float, dice: random.Random) -> list[str]:
    """At each step, with this probability: it is left out, something else is done after it, or it changes places with
    the next."""
    done = list(steps)
    for n in range(len(steps) - 1):
        if dice.random() < noise / 3:
            done[n], done[n + 1] = done[n + 1], done[n]
    disturbed = []
    for step in done:
        if dice.random() >= noise / 3:
            disturbed.append(step)
        if dice.random() < noise / 3:
            disturbed.append(f"stray_{dice.randrange(40)}")
    return disturbed


def _fail(moves: list[Move], failure: Failure, noise: float, dice: random.Random) -> bool:
    moves.append(Move("tool", failure.step, ok=False, error=failure.error))
    way = dice.randrange(2)
    if dice.random() < noise / 3:
        moves.append(Move("tool", f"stray_{dice.randrange(40)}"))
    moves.append(Move("tool", (failure.better, failure.worse)[way]))
    works = dice.random() < _RECOVERIES[way]
    moves.append(Move("tool", failure.step, ok=works, error="" if works else failure.error))
    return works


def _caused(cause: Cause, dice: random.Random) -> list[Move]:
    """The struck tool runs in every session, the deed in half of them, with or without something between."""
    deed, guarded = dice.random() < 0.5, dice.random() < 0.3
    between = [Move("tool", f"stray_{dice.randrange(40)}") for _ in range(dice.randrange(3))]
    chance = (_UNDER_GUARD if guarded else _EFFECT) if deed else _BASE
    comes = dice.random() < chance
    moves = [Move("tool", cause.guard)] if guarded else []
    moves += [Move("tool", cause.deed)] if deed else []
    moves += between
    if not cause.state:
        moves.append(Move("tool", cause.struck, ok=not comes, error=cause.error if comes else ""))
    elif comes:
        moves.append(Move("state", "mode", cause.state))
    return moves + [Move("tool", f"stray_{dice.randrange(40)}") for _ in range(2)]


def _decide(moves: list[Move], question: Question, option: int, ok: bool, good: bool, dice: random.Random) -> bool:
    """Whether the work ends well."""
    made = Move("decide", question.text, question.options[option], offered=question.options)
    match question.link:
        case "feedback" | "parent":
            at = dice.randrange(1, len(moves) + 1)
            kind, name = ("feedback", "") if question.link == "feedback" else ("test", CHECK)
            _insert(moves, at, [made])
            moves.append(Move(kind, name, ok=ok, about=at))
        case "next":
            moves += [made, Move("test", CHECK, ok=ok)]
        case "end":
            moves.append(made)
            return ok
    return good


def _events(number: int, moves: Sequence[Move]) -> Iterator[dict[str, Any]]:
    session = f"planted-{number:05}"
    at = START_MS - 200 * 86_400_000 + number * _SESSION_MS
    ids: dict[int, str] = {}
    sequence = 0
    for place, move in enumerate(moves):
        ids[place] = f"{session}-{sequence}"
        for kind, content, links in _contents(place, move, ids):
            yield event(session, sequence, at=at + 1_000 * sequence, event_type=kind, content=content, **links)
            sequence += 1


def _contents(place: int, move: Move, ids: dict[int, str]) -> Iterator[tuple[str, dict[str, Any], dict[str, str]]]:
    links = {"parent_event_id": ids[move.about]} if move.about is not None and move.kind == "test" else {}
    match move.kind:
        case "user":
            yield "message", {"role": "user", "text": move.text, "attachments": []}, {}
        case "tool":
            name = {"tool_name": move.name, "call_id": f"call-{place}"}
            message = f"{move.error}: the {move.name.split('_')[0]} number {place} gave up" if move.error else ""
            yield "tool_call", {**name, "arguments": {"number": place}}, {}
            yield "tool_result", {**name, "result": {"text": message}, "success": move.ok}, {}
            if not move.ok:
                yield "error", {"error_type": move.error, "message": "it gave up"}, {"correlation_id": ids[place]}
        case "state":
            yield "state_change", {"key": move.name, "to": move.text}, {}
        case "decide":
            said = {"question": move.name, "chosen_option": move.text, "alternatives": list(move.offered)}
            yield "decision", {**said, "reasoning": "", "confidence": 0.99}, {}
        case "test":
            yield "test_run", {"command": move.name, "exit_code": 0 if move.ok else 1}, links
        case "feedback":
            target = {"target_event_id": ids[move.about]} if move.about is not None else {}
            yield "feedback", {"signal": "positive" if move.ok else "negative", "comment": "", **target}, {}
