"""Actions are learnt as they are run: whole lines, arguments that are put together, tools that do several things."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.compiler import task_schema
from hmx_pipeline.compiler.tasks.procedure import verdict
from hmx_pipeline.compiler.tasks.readings import readings
from hmx_pipeline.compiler.tasks.task_run import Run, RunAction
from hmx_pipeline.segments.commands import whole_line
from tests.pure.compiler.test_tasks import ROOMS, USERS, called, deed, learnt, run, steps


@pytest.mark.parametrize(
    "line",
    [
        "hall free {0} --for board && hall hold {0} --days 3",
        "hall log {0} | tail -n 5",
        "ssh desk 'hall open {0} --quiet' | tee -a /var/log/hall.log",
        "curl -sS -X PUT https://hall.example/rooms/{0} -d state=open | jq -r .state",
        "hall list {0} > /dev/null 2>&1",
    ],
)
def test_a_line_of_several_commands_is_one_step_as_it_was_run(line: str) -> None:
    runs = [
        run(n, f"Open room {ROOMS[n % 6]}", f"hall check {ROOMS[n % 6]}", line.format(ROOMS[n % 6])) for n in range(6)
    ]
    assert steps(learnt(runs)) == ["hall check <room>", line.format("<room>")]


def test_commands_that_mostly_stand_alone_stay_steps_of_their_own() -> None:
    def opened(n: int) -> list[str]:
        room = ROOMS[n % 6]
        return [f"hall check {room} && hall open {room}"] if n == 2 else [f"hall check {room}", f"hall open {room}"]

    found = learnt([run(n, f"Open room {ROOMS[n % 6]}", *opened(n)) for n in range(6)])
    assert steps(found) == ["hall check <room>", "hall open <room>"]


def test_a_nested_argument_has_its_constants_and_slots_and_is_quoted() -> None:
    runs = [
        run(
            n,
            f"Move {ROOMS[n % 6]} to wing {n % 4}w",
            called("put", path=f"/v2/rooms/{ROOMS[n % 6]}/wing", body=f"{{'wing': '{n % 4}w', 'mode': 'slow'}}"),
            called("tell", text="moved, call the desk"),
        )
        for n in range(8)
    ]
    first, then = steps(learnt(runs))
    assert then == 'tell(text="moved, call the desk")'
    assert first == "put(body=\"{'wing': '<wing>', 'mode': 'slow'}\", path=/v2/rooms/<the_path>/wing)".replace(
        "<the_path>", f"<{first.split('/rooms/<')[1].split('>')[0]}>"
    )


def test_one_tool_that_does_several_things_is_a_step_for_each() -> None:
    runs = [
        run(
            n,
            f"Open room {ROOMS[n % 6]}",
            called("sh", cmd=f"hall check {ROOMS[n % 6]}"),
            called("sh", cmd=f"hall open {ROOMS[n % 6]} --days 3"),
        )
        for n in range(6)
    ]
    assert steps(learnt(runs)) == ['sh(cmd="hall check <room>")', 'sh(cmd="hall open <room> --days 3")']


def test_a_look_around_with_a_tool_does_not_replace_what_the_tool_is_used_for() -> None:
    def opened(n: int) -> list[RunAction | str]:
        look = [called("get", kind="clock")] if n == 3 else []
        return [called("get", kind="room", id=ROOMS[n % 6]), *look, f"hall open {ROOMS[n % 6]}"]

    found = learnt([run(n, f"Open room {ROOMS[n % 6]}", *opened(n)) for n in range(6)])
    assert steps(found) == ["get(id=<room>, kind=room)", "hall open <room>"]


def test_commands_of_one_program_are_told_apart_by_their_paths() -> None:
    api, cy = "https://hall.example/v2", "curl -X POST https://hall.example/v2/rooms"

    def opened(n: int) -> list[RunAction | str]:
        room, look = ROOMS[n % 6], [f"curl {api}/health"] if n == 3 else []
        stuck = [deed(f"{cy}/{room}/open -d by=board", ok=False, error="lock is stuck")] if n % 2 else []
        oiled = [f"{cy}/{room}/oil -d by=hand"] if n % 2 else []
        return [f"curl {api}/rooms/{room}", *look, *stuck, *oiled, f"{cy}/{room}/open -d by=board", f"hall tell {room}"]

    runs = [run(n, f"Open room {ROOMS[n % 6]}", *opened(n)) for n in range(9)]
    found = learnt(runs)
    assert steps(found) == [f"curl {api}/rooms/<room>", f"{cy}/<room>/open -d by=board", "hall tell <room>"]
    assert [way.template.text for each in found.remedies for way in each.ways] == [f"{cy}/<room>/oil -d by=hand"]
    assert not any(task_schema._does_more(each, found) for each in runs)


def test_a_value_is_filled_from_the_whole_name_that_the_wish_has() -> None:
    runs = [run(n, f"Fix door dr-{n}{n}", f"ssh ctl-dr-{n}{n} restart", f"door test dr-{n}{n}") for n in range(6)]
    assert steps(learnt(runs)) == ["ssh ctl-<door> restart", "door test <door>"]


def test_a_name_with_slashes_in_the_wish_is_filled_in_as_a_whole() -> None:
    def granted(n: int) -> Run:
        case = f"Z/24/{n}0{n}1{n}"
        text, path = f"on: permit\ncase: {case}\nweeks: 6", f"C:\\cases\\{ROOMS[n % 6]}\\act"
        told = called("tell", text=text), called("put", path=path)
        return run(n, f"Grant {case} in {ROOMS[n % 6]}", f"http POST /v2/grants case={case} kind=long", *told)

    assert steps(learnt([granted(n) for n in range(8)])) == [
        "http POST /v2/grants case=<case> kind=long",
        'tell(text="on: permit\ncase: <case>\nweeks: 6")',
        "put(path=C:\\cases\\<value>\\act)",
    ]


def test_what_a_users_own_value_is_given_as_is_not_their_own() -> None:
    runs = [run(n, f"Send {ROOMS[n % 6]} home", f"http POST /v2/way to=box/{USERS[n % 3]}") for n in range(9)]
    found = learnt(runs)
    assert steps(found) == ["http POST /v2/way to=<box>"]
    assert {value for value, _ in found.slots["box"][0].pairs} == {f"box/{user}" for user in USERS}


def test_endings_of_other_scripts_are_no_part_of_a_value() -> None:
    found = learnt([run(n, f"U48{n}1님이 문 열어 달래요", f"hall open U48{n}1") for n in range(6)])
    (name,) = found.slots
    assert found.goals == (f"<{name}>님이 문 열어 달래요",)


def test_what_was_only_done_because_a_step_had_failed_is_a_way_out_and_no_step() -> None:
    def opened(n: int) -> list[RunAction | str]:
        room, stuck = ROOMS[n % 6], n % 5 < 3
        tried = [deed(f"hall open {room}", ok=False, error="lock is stuck"), f"hall oil {room}"] if stuck else []
        return [f"hall check {room}", *tried, f"hall open {room}"]

    found = learnt([run(n, f"Open room {ROOMS[n % 6]}", *opened(n)) for n in range(9)])
    assert steps(found) == ["hall check <room>", "hall open <room>"]
    assert [way.template.text for remedy in found.remedies for way in remedy.ways] == ["hall oil <room>"]


@pytest.mark.parametrize("same", [True, False])
def test_a_way_out_says_to_try_again_only_if_that_was_the_same_again(same: bool) -> None:
    def opened(n: int) -> list[RunAction | str]:
        room, other = ROOMS[n % 6], ROOMS[n % 6 if same else (n + 1) % 6]
        tried = [deed(f"hall open {other}", ok=False, error="lock is stuck"), f"hall oil {room}"] if n % 2 else []
        return [f"hall check {room}", *tried, f"hall open {room}"]

    found = learnt([run(n, f"Open room {ROOMS[n % 6]}", *opened(n)) for n in range(9)])
    (way,) = (line for line in task_schema.lines({"recovery": [*map(task_schema._recovery, found.remedies)]}))
    assert ("`, then try again (" in way) is same
    assert ("run `hall oil <room>`, then `hall open <room>` (" in way) is not same


def test_who_did_not_try_the_way_out_says_nothing_against_the_procedure() -> None:
    def opened(n: int) -> list[RunAction | str]:
        room = ROOMS[n % 6]
        stuck = deed(f"hall open {room}", ok=False, error="lock is stuck")
        return [f"hall check {room}", *([stuck, f"hall oil {room}"] if n % 2 else []), f"hall open {room}"]

    found = learnt([run(n, f"Open room {ROOMS[n % 6]}", *opened(n)) for n in range(9)])
    failed = [deed(f"hall open {ROOMS[0]}", ok=False, error=error) for error in ("lock is stuck", "no such room")]
    gave_up, other = (run(9, "Open it", f"hall check {ROOMS[0]}", each, good=False) for each in failed)
    tried = run(9, "Open it", f"hall check {ROOMS[0]}", f"hall oil {ROOMS[0]}", failed[0], good=False)
    assert [verdict(found, each) for each in (gave_up, tried, other)] == [None, False, False]


def test_a_slot_has_a_name_that_readers_of_templates_take() -> None:
    words = ("комната", "房间", "über", "2nd")
    for word in words:
        runs = [run(n, f"Open {word} {ROOMS[n % 6]}", f"hall open {ROOMS[n % 6]}") for n in range(6)]
        (slot,) = learnt(runs).slots
        assert slot[0].isascii()
        assert slot[0].isalpha()


@given(st.text(alphabet="ab '\"|&;>-=$\\\n#`()<", max_size=40))
def test_any_line_that_is_read_as_one_keeps_its_words(line: str) -> None:
    whole = whole_line(line)
    if whole is not None:
        assert "".join((whole.program, *whole.words)) == "".join(line.split()) or any(c in line for c in "'\"\\")
        assert len(whole.form.split(" ")) == len(whole.words) + 1


def test_readings_do_not_depend_on_the_order_of_runs() -> None:
    runs = [
        run(
            n,
            f"Open room {ROOMS[n % 6]}",
            called("sh", cmd=f"hall check {ROOMS[n % 6]}"),
            called("sh", cmd=f"hall open {ROOMS[n % 6]}"),
            f"hall log {ROOMS[n % 6]} | tail -n {n % 2 + 4}",
        )
        for n in range(6)
    ]
    assert readings(runs) == readings(runs[::-1]) != frozenset()
    assert {each.subject for each in runs} == set(USERS)
