"""outlook: what successes did otherwise than failures speaks for a session that does it too."""

from collections.abc import Sequence

from pipeline.advice.courses import Act, Course
from pipeline.advice.experience import Experience
from pipeline.advice.outlook import outlook


def course(number: int, verbs: Sequence[str], success: bool | None, agent: str = "agent") -> Course:
    acts = tuple(Act(verb, True, "", -1, (), ()) for verb in verbs)
    return Course(f"{number:04}", agent, success, frozenset({"deploy"}), frozenset(), (), acts, len(acts))


def told(known: Sequence[Course], now: Course) -> float:
    value = outlook(Experience(known), now)
    assert value is not None
    return value


def test_the_tools_of_successes_speak_for_it() -> None:
    known = [course(n, ["test", "ship"] if n % 2 else ["ship", "pray"], n % 2 == 1) for n in range(20)]
    assert told(known, course(99, ["test", "ship"], None)) > 0 > told(known, course(99, ["ship", "pray"], None))


def test_doing_as_much_as_failures_do_speaks_against_it() -> None:
    known = [course(n, ["try"] * (2 + n % 3 if n % 2 else 9 - n % 3), n % 2 == 1) for n in range(20)]
    assert told(known, course(99, ["try"] * 3, None)) > told(known, course(99, ["try"] * 6, None))


def test_an_agents_own_record_counts_as_far_as_it_is_known() -> None:
    known = [course(n, ["ship"], n % 4 != 0 if n < 20 else n % 4 == 0, "able" if n < 20 else "new") for n in range(40)]
    able, stranger, new = (told(known, course(99, ["ship"], None, agent)) for agent in ("able", "unknown", "new"))
    assert able > stranger > new


def test_nothing_is_said_where_hardly_anything_failed() -> None:
    known = [course(n, ["ship"], n > 2) for n in range(20)]
    assert outlook(Experience(known), course(99, ["ship"], None)) is None
