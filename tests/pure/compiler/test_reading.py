"""Artifacts read like notes: nothing trivial, nothing twice, and an error's own words wherever it has any."""

from collections.abc import Sequence

from msgspec.structs import replace

from hmx_pipeline.compiler import failure_playbook
from hmx_pipeline.compiler.candidate import candidate
from hmx_pipeline.compiler.evidence_kind import ArtifactCandidate
from hmx_pipeline.compiler.extract import contributions
from hmx_pipeline.compiler.tasks.task_run import read_act
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Pattern
from hmx_pipeline.contracts.options import Status
from tests.support.runs import run, run_of, tasks
from tests.support.segments import Script


def compiled(runs: list[Script], kind: str) -> list[ArtifactCandidate]:
    told = [c for one in runs for c in contributions(one.segment()) if c.pattern_type == kind]
    found = (candidate([c for c in told if c.pattern == pattern]) for pattern in sorted({c.pattern for c in told}))
    return [one for one in found if one is not None]


def failing(number: int, *looks: str, output: str, error: bool = True) -> Script:
    """A check fails, is looked into, mended by an edit and passes."""
    one = Script(f"s{number}")
    one.user("Please review")
    run = one.add(Role.TEST, name="make lint", ok=False, text=output)
    if error:
        one.add(Role.ERROR, name="lint_failed", text="[lint] $ linter run ./...", parent=run)
    for look in looks:
        one.add(Role.ACTION, name=f"{look} a.go", ok=True)
    one.add(Role.ACTION, name="edit", text="a.go", ok=True)
    one.add(Role.TEST, name="make lint", ok=True)
    return one


LINTED = "[lint] $ linter run ./...\ncmd/a.go:3:9: declared and not used: newStore\n[lint] ERROR task failed"


def test_ways_out_that_differ_only_in_what_was_looked_at_are_one() -> None:
    looks = [(), ("cat",), ("cat",), ("grep", "cat"), ("cat",)]
    (found,) = compiled([failing(n, *of, output=LINTED) for n, of in enumerate(looks)], "failure_playbook")
    assert found.title == "Lint failed (run `make lint`)"
    assert found.content["recovery_steps"] == [
        "Run `cat`, then edit files, then run `make lint` again unchanged (worked in 5 of 5 sessions)"
    ]
    assert found.content["symptoms"] == ["Lint failed"]
    assert found.content["trigger_conditions"] == []


def test_evidence_is_read_by_workers_of_the_release_before_and_theirs_by_these() -> None:
    told = [c for c in contributions(failing(0, output=LINTED).segment()) if c.pattern_type == "failure_playbook"]
    assert [c.body["fault"] for c in told] == [""]
    texts: list[list[str]] = [["a"], ["b"], ["of a newer release"]]
    read = [read_act(["", "deploy", [["env", "a"]], 1, "", *texts[:more]]) for more in range(4)]
    assert [(act.seen, act.heard) for act in read] == [
        (frozenset(), frozenset()), (frozenset("a"), frozenset()), *[(frozenset("a"), frozenset("b"))] * 2,
    ]  # fmt: skip


def test_a_command_that_fails_without_an_error_event_tells_by_its_output() -> None:
    output = "installing\nerror: no matching version of left"
    (found,) = compiled([failing(n, output=output, error=False) for n in range(3)], "failure_playbook")
    assert found.title == "No matching version of left (run `make lint`)"


def test_a_playbook_shows_whole_actions_or_no_action_that_could_be_run() -> None:
    runs = []
    for number, (pod, subject) in enumerate([("pod-7f", "ana"), ("pod-2c", "bo"), ("pod-9d", "ana")]):
        one = Script(f"s{number}", subject=subject)
        one.user(f"Roll out {pod}")
        one.command(f"kube wait {pod}", ok=False, error="image can't be pulled")
        one.command(f"taillog {number}{number}{number}")
        one.command(f"keys make {pod} --from vault")
        one.command(f"kube wait {pod}")
        runs.append(one)
    (found,) = compiled(runs, "failure_playbook")
    shown = list(failure_playbook.lines(found.content))
    (way,) = (line for line in shown if line.startswith("Recover"))
    assert way.startswith("Recover: Run taillog, then run `keys make <")
    assert "--from vault`, then try again" in way
    assert any(line.startswith("<") and line.endswith("is the same as in the failed call") for line in shown)


def test_what_a_user_gives_when_asked_is_never_part_of_a_recovery() -> None:
    runs = []
    for number in range(3):
        one = Script(f"s{number}")
        one.user("I want to return a lamp")
        one.tool("find_by_name", ok=False, values=("Amelia", "7"), error="user not found")
        one.agent("What is your email?")
        one.user("It is amelia.silva7872@example.com")
        one.tool("find_by_email", arguments=(("email", "amelia.silva7872@example.com"),))
        runs.append(one)
    (found,) = compiled(runs, "failure_playbook")
    shown = "\n".join(failure_playbook.lines(found.content))
    assert "`find_by_email(email=<email>)`" in shown
    assert "amelia" not in shown
    assert "<email> is what the user says when asked" in shown


def test_an_error_that_is_no_actions_is_got_over_by_trying_again() -> None:
    runs = []
    for number in range(3):
        one = Script(f"s{number}")
        said = one.agent("Two answers at once")
        one.add(Role.ERROR, name="FormatError", text="always give exactly one answer", parent=said)
        one.tool("get_order")
        runs.append(one)
    (found,) = compiled(runs, "failure_playbook")
    assert found.content["recovery_steps"] == ["Try again (worked in 3 of 3 sessions)"]
    assert found.status is Status.DRAFT, "the error says as much"


def test_a_search_that_finds_nothing_is_no_failure_and_that_something_failed_is_no_way_to_fail() -> None:
    runs = []
    for number in range(4):
        one = Script(f"s{number}")
        one.user("Please review")
        for name, kind in (("grep x a.go", "Missing"), ("make all", "Missing"), ("make some", "NonZeroExit")):
            run = one.add(Role.ACTION, name=name, ok=False)
            one.add(Role.ERROR, name=kind, text="exit code 1", parent=run)
            one.add(Role.ACTION, name=name, ok=True)
        runs.append(one)
    assert [found.title for found in compiled(runs, "failure_playbook")] == ["Missing (run `make all`)"]


def test_a_playbook_rests_on_one_way_out_that_has_helped_twice() -> None:
    runs = []
    for number, way in enumerate(["restart", "rebuild", "reinstall"] * 2):
        one = Script(f"s{number}")
        one.tool("deploy", ok=False, error="no route to the host", kind="Unreachable")
        one.tool(way)
        one.tool("deploy")
        runs.append(one)
    statuses = [[one.status.value for one in compiled(some, "failure_playbook")] for some in (runs[:3], runs[:4])]
    assert statuses == [["draft"], ["active"]]


def test_what_takes_values_from_nowhere_is_no_procedure() -> None:
    """One could not do it from what stands there."""
    places = ["here", "there", "left", "right", "above", "below"]

    def found(*more: str) -> dict[Pattern, ArtifactCandidate]:
        runs = []
        for number, place in enumerate(places):
            one = Script(f"s{number}")
            one.user("Please merge")
            one.command(f"cat {place}/{number}.txt")
            for line in more:
                one.command(line)
            one.feedback("positive")
            runs.append(one)
        return tasks([run_of(one.segment()) for one in runs])

    assert found() == {}
    (merged,) = found("git merge main").values()
    assert [step["description"] for step in merged.content["steps"]][-1] == "Run `git merge main`"


def test_a_procedure_is_titled_with_the_users_own_words() -> None:
    wishes = ["please merge my branch", "merge my branch", "Hello, merge my branch!"] * 2
    (found,) = tasks([run(n, ("git merge main",), goal=wish) for n, wish in enumerate(wishes)]).values()
    assert found.title == "Merge my branch"


def test_what_was_done_long_before_the_next_try_is_no_way_out() -> None:
    """Too much lay between to say what helped; that the segment ended well proves none of it."""
    runs = []
    for number in range(4):
        one = Script(f"s{number}")
        one.tool("deploy", ok=False, error="no route to the host", kind="Unreachable")
        one.tools(["restart"] if number < 3 else [f"step_{n}" for n in range(9)])
        one.tool("deploy")
        one.feedback("positive")
        runs.append(one)
    (found,) = compiled(runs, "failure_playbook")
    assert found.content["recovery_steps"] == ["Restart, then deploy again unchanged (worked in 3 of 3 sessions)"]
    assert found.success_rate == 1.0


def test_a_step_done_over_and_over_is_one_step_of_a_way_out() -> None:
    runs = []
    for number in range(3):
        one = Script(f"s{number}")
        one.tool("deploy", ok=False, error="no route to the host", kind="Unreachable")
        one.tools(["set_route", "get_route"] * 6)
        one.tool("deploy")
        runs.append(one)
    (found,) = compiled(runs, "failure_playbook")
    assert found.content["recovery_steps"] == [
        "Set route, then get route, then deploy again unchanged (worked in 3 of 3 sessions)"
    ]


def test_warnings_and_calls_that_were_given_up_for_another_are_no_failures() -> None:
    runs = []
    for number in range(4):
        one = Script(f"s{number}")
        for tool, kind, said in (
            ("test_it", "DeprecationWarning", "old form"),
            ("fetch_it", "", "Sibling call errored"),
        ):
            one.tool(tool, ok=False, error=said, kind=kind)
            one.tool(tool)
        runs.append(one)
    assert compiled(runs, "failure_playbook") == []


def test_that_something_failed_and_was_mended_is_no_note_whatever_its_output_says() -> None:
    for output in ("", LINTED):
        (found,) = compiled([failing(n, output=output) for n in range(6)], "failure_playbook")
        assert found.status is Status.DRAFT


def test_a_way_out_that_fails_more_often_than_not_makes_no_playbook_active() -> None:
    def status(worked: int) -> str:
        runs = []
        for number in range(4):
            one = Script(f"s{number}")
            failed = {"ok": False, "error": "no route to the host", "kind": "Unreachable"}
            one.tool("deploy", **failed)
            one.tool("restart")
            one.tool("deploy", **({} if number < worked else failed))
            runs.append(one)
        (found,) = compiled(runs, "failure_playbook")
        return found.status.value

    assert [status(2), status(3)] == ["draft", "active"]


def test_what_has_no_name_in_general_is_left_open_and_names_of_programs_tell_nothing_apart() -> None:
    runs = []
    for number in range(4):
        one = Script(f"s{number}")
        program = ("python", "/usr/bin/python3.9")[number % 2]
        for text in (f"No module named 'left_{number}'", f"{program}: can't open file 'x{number}.py'"):
            run = one.add(Role.ACTION, name="python x.py", ok=False)
            one.add(Role.ERROR, name="Missing", text=text, parent=run)
            one.add(Role.ACTION, name="pip install left", ok=True)
            one.add(Role.ACTION, name="python x.py", ok=True)
        runs.append(one)
    found = compiled(runs, "failure_playbook")
    assert sorted(one.title for one in found) == [
        "Missing: No module named … (run `python`)",
        "Missing: can't open file (run `python`)",
    ]


def test_what_was_never_tried_again_is_no_way_out() -> None:
    """That the session went well proves none of what was done."""
    runs = []
    for number in range(4):
        one = Script(f"s{number}")
        one.tool("change_order", ok=False, error="no such item", kind="Refused")
        one.tool("cancel_order" if number < 2 else "repair_order")
        one.feedback("positive")
        runs.append(one)
    (found,) = compiled(runs, "failure_playbook")
    assert found.content["recovery_steps"] == []
    assert found.status is Status.DRAFT


def _refused(number: int, *, steps: tuple[str, ...] = (), subject: str = "", **retry: str) -> Script:
    """A change of an order is refused, these steps are done, and it is tried once more with other arguments."""
    one = Script(f"s{number}", subject=subject)
    given = {"order": f"W{number}17", "item": f"{number}88", "card": f"c-{number}5"}
    one.tool("change_item", ok=False, arguments=tuple(given.items()), error="no such item", kind="Refused")
    one.tools(steps)
    one.tool("change_item", arguments=tuple((given | retry).items()))
    return one


def test_a_recovery_names_the_arguments_that_changed() -> None:
    (found,) = compiled([_refused(n, item=f"{n}99") for n in range(3)], "failure_playbook")
    assert found.content["recovery_actions"] == ["Try again with other arguments (worked in 3 of 3 sessions)"]
    (added,) = compiled([_refused(n, mode="force") for n in range(2)], "failure_playbook")
    (way,) = added.content["recovery_actions"]
    assert way.startswith("Try again with mode=force (")
    assert [found.status, added.status] == [Status.DRAFT, Status.ACTIVE], "which other item nobody knows"


def _flag(number: int, line: str, *after: str, error: str = "unknown flag: --stat") -> Script:
    one = Script(f"s{number}")
    one.user(f"Review request {number}7")
    one.command(line.format(f"{number}7"), ok=False, error=error)
    for other in after:
        one.command(other.format(f"{number}7"))
    return one


def test_a_command_that_worked_in_another_form_is_told_whole() -> None:
    runs = [_flag(n, "gh pr diff {} --stat", "gh pr diff {} --name-only") for n in range(3)]
    (found,) = compiled(runs, "failure_playbook")
    (way,) = found.content["recovery_actions"]
    assert way.startswith("Run `gh pr diff <request> --name-only` instead (worked")
    assert found.status is Status.ACTIVE


def test_what_was_looked_at_before_another_tool_was_found_is_not_told_once_some_did_without() -> None:
    """Its path is news, though the words of the path stand in the error and in the call."""
    failed = ("python -m pytest test{}.py", "bin/test test{}.py")
    looks = [("ls bin",), ("ls bin",), ("cat setup.cfg",), (), ()]
    runs = [_flag(n, failed[0], *of, failed[1], error="/usr/bin/python: No such module") for n, of in enumerate(looks)]
    (found,) = compiled(runs, "failure_playbook")
    (way,) = found.content["recovery_actions"]
    assert way == "Run `bin/test <value>.py` instead (worked in 5 of 5 sessions)"
    assert found.status is Status.ACTIVE


def test_to_ask_a_program_for_its_version_is_no_try() -> None:
    runs = [_flag(n, "lintx check a{}.py", "lintx --version", error="no such rule") for n in range(3)]
    (found,) = compiled(runs, "failure_playbook")
    assert found.status is Status.DRAFT
    assert "again" not in str(found.content["recovery_actions"])
    assert "instead" not in str(found.content["recovery_actions"])


def test_what_the_error_says_itself_is_no_way_out_worth_telling() -> None:
    def status(error: str) -> Status:
        runs = []
        for number in range(4):
            one = Script(f"s{number}")
            one.tool("write_it", ok=False, error=error, kind="Refused")
            one.tool("open_lock")
            one.tool("write_it")
            runs.append(one)
        (found,) = compiled(runs, "failure_playbook")
        return found.status

    assert [status("the lock is shut, open it first"), status("shut")] == [Status.DRAFT, Status.ACTIVE]


def test_what_is_done_after_any_failure_is_no_way_out_of_one() -> None:
    def status(*, always: bool) -> Status:
        runs = []
        for number in range(4):
            one = Script(f"s{number}")
            for n in range(3):
                one.tool(f"other_{n}", ok=False, error=f"trouble of kind {'abc'[n]}", kind=f"Kind{'ABC'[n]}")
                one.tools(["look_up"] if always else ["wait_up"])
                one.tool(f"other_{n}")
            one.tool("deploy", ok=False, error="no route to the host", kind="Unreachable")
            one.tool("look_up")
            one.tool("deploy")
            runs.append(one)
        return next(f.status for f in compiled(runs, "failure_playbook") if "route" in f.title)

    assert [status(always=True), status(always=False)] == [Status.DRAFT, Status.ACTIVE]


def test_that_everything_was_changed_names_nothing() -> None:
    runs = [_refused(n, order=f"W{n}1", item=f"{n}99", card=f"d-{n}") for n in range(3)]
    (found,) = compiled(runs, "failure_playbook")
    assert found.content["recovery_actions"] == ["Try again with other arguments (worked in 3 of 3 sessions)"]
    assert found.status is Status.DRAFT


def test_what_one_subject_added_is_not_told_to_others() -> None:
    runs = [_refused(n, subject="ana", mode="zanzibar") for n in range(3)]
    one = Script("s9", subject="bo")
    one.tool("change_item", ok=False, error="no such item", kind="Refused")
    one.tool("find_item")
    (found,) = compiled([*runs, one], "failure_playbook")
    assert found.subject == ""
    assert "zanzibar" not in str(found)


def _test_run(number: int, failed: str, *, edits: bool = False, passes: bool = True) -> Script:
    """A runner is missing, and the same file is tested by another one."""
    one = Script(f"s{number}")
    file = f"pkg/tests/test_{number}.py"
    one.user(f"Mend the parser, see {file}")
    run = one.add(Role.TEST, name=f"{failed} {file}", ok=False)
    one.add(Role.ERROR, name="Missing", text="runner is not there", parent=run)
    one.command("ls bin")
    if edits:
        one.add(Role.ACTION, name="edit", text=file, ok=True)
    one.add(Role.TEST, name=f"bin/test {file}", ok=passes)
    one.add(Role.ACTION, name="edit", text=file, ok=True)
    return one


def test_another_action_to_the_same_end_is_judged_by_its_own_result() -> None:
    for failed in ("pytest", "python -m pytest"):
        runs = [_test_run(n, failed, passes=n < 3) for n in range(4)]
        for one in runs:
            one.feedback("negative")  # of something else
        (found,) = compiled(runs, "failure_playbook")
        (way,) = found.content["recovery_actions"]
        assert way.startswith("Run `ls bin`, then run `bin/test ")
        assert way.endswith("` instead (worked in 3 of 4 sessions)")


def test_another_action_proves_nothing_after_a_change() -> None:
    (found,) = compiled([_test_run(n, "pytest", edits=True) for n in range(4)], "failure_playbook")
    assert "instead" not in str(found.content)


def test_an_action_that_the_failed_one_works_after_does_not_take_its_place() -> None:
    runs = []
    for number in range(3):
        one, order = Script(f"s{number}"), (("id", f"A10{number}"),)
        one.user(f"Refund order A10{number}")
        one.tool("refund", ok=False, error="order is locked", kind="LockError", arguments=order)
        one.tool("unlock_order", arguments=order)
        one.tool("refund", arguments=order)
        runs.append(one)
    (found,) = compiled(runs, "failure_playbook")
    (way,) = found.content["recovery_actions"]
    assert way == "Run `unlock_order(id=<order>)`, then try again unchanged (worked in 3 of 3 sessions)"


def test_what_is_done_before_every_try_is_no_recovery() -> None:
    def status(*, anyway: bool) -> Status:
        runs = []
        for number in range(4):
            one = Script(f"s{number}")
            one.user("Please mend it")
            for _ in range(4):
                one.tools(["format_it"] if anyway else [])
                one.command("make lint")
            one.command("make lint", ok=False, error="broken rule", kind="Lint")
            one.tool("format_it")
            one.add(Role.ACTION, name="edit", text="a.go", ok=True)
            one.command("make lint")
            runs.append(one)
        (found,) = compiled(runs, "failure_playbook")
        return found.status

    assert [status(anyway=True), status(anyway=False)] == [Status.DRAFT, Status.ACTIVE]


def test_what_only_looks_is_no_procedure_where_the_runs_do_much_more() -> None:
    def found(*more: str) -> dict[Pattern, ArtifactCandidate]:
        runs = []
        for number in range(6):
            one = Script(f"s{number}")
            one.user(f"Cancel the order W{number}17 please")
            one.tool("get_order", arguments=(("order", f"W{number}17"),))
            for name in more:
                one.tool(name.format(number), arguments=(("order", f"W{number}17"),))
            one.feedback("positive")
            runs.append(one)
        return tasks([run_of(one.segment()) for one in runs])

    assert len(found()) == 1, "where all only look, looking is the task"
    assert found("change_{}_way", "send_{}_note", "close_{}_case") == {}
    assert len(found("cancel_order")) == 1


def _served(number: int, wish: str, *acts: tuple[str, str]) -> Script:
    """A customer is looked up, something is done, and what it needs is asked for late."""
    one = Script(f"s{wish}{number}")
    one.user(f"Please {wish} the order W{number}17")
    for text in ("It is the green one", "Yes"):
        one.user(text)
    one.tool("get_order", arguments=(("order", f"W{number}17"),))
    one.user(f"Send it to street-{number}a")
    for name, value in acts:
        one.tool(name, arguments=(("order", f"W{number}17"), ("place", value.format(number))))
    one.feedback("positive")
    return one


def test_what_is_done_whatever_is_wanted_leads_nowhere() -> None:
    def found(*acts: tuple[str, str]) -> list[str]:
        runs = [_served(n, "move", *acts) for n in range(6)]
        runs += [_served(n, wish, (f"{wish}_order", "here")) for wish in ("cancel", "pack", "sell") for n in range(6)]
        made = tasks([run_of(one.segment()) for one in runs]).values()
        return [str(one.content["tools_used"]) for one in made]

    assert len(found(("move_order", "street-{}a"))) == 4
    assert len(found()) == 3, "to look the order up is part of everything"


def test_what_the_user_says_when_asked_is_not_told_as_a_result() -> None:
    runs = [_served(n, "move", ("move_order", "street-{}a")) for n in range(6)]
    (found,) = tasks([run_of(one.segment()) for one in runs]).values()
    assert {name: slot["source"] for name, slot in found.content["slots"].items()} == {
        "order": "goal",
        "place": "heard",
    }


def test_a_look_before_an_edit_is_tried_again_is_no_way_out_worth_telling() -> None:
    def status(step: str) -> Status:
        runs = []
        for number in range(4):
            one = Script(f"s{number}")
            edit = one.add(Role.ACTION, name="edit", text="a.go", ok=False)
            one.add(Role.ERROR, name="refused", text="it does not match", parent=edit)
            one.command(step)
            one.add(Role.ACTION, name="edit", text="a.go", ok=True)
            runs.append(one)
        (found,) = compiled(runs, "failure_playbook")
        return found.status

    assert [status("cat conf/base"), status("svc unlock base")] == [Status.DRAFT, Status.ACTIVE]


def test_a_tool_beside_the_one_that_failed_is_told_for_what_it_is_given() -> None:
    def status(**given: str) -> Status:
        runs = []
        for number in range(4):
            one, asked = Script(f"s{number}"), f"W-{number}17"
            one.user(f"What about {asked}?")
            one.tool("find_order_by_mail", ok=False, error="nobody", kind="Missing", arguments=(("mail", asked),))
            one.tool("find_order_by_phone", arguments=(("phone", asked), *given.items()))
            runs.append(one)
        (found,) = compiled(runs, "failure_playbook")
        return found.status

    assert [status(), status(scope="all")] == [Status.DRAFT, Status.ACTIVE]


def _asked_at_the_desk(number: int, wish: str, *acts: str) -> Script:
    """What every session at the desk does, and then what only its wish asks for."""
    one = Script(f"s{number}")
    one.user(f"I need to {wish} my booking B{number}17")
    for act in ("get_user", "get_booking", "search_seats", *acts):
        one.tool(act, arguments=(("booking", f"B{number}17"),))
    one.feedback("positive")
    return one


def test_wishes_that_foretell_what_is_done_are_several_tasks_however_alike_the_rest_is() -> None:
    """Some who want the one need the other too, so that no way leads from cluster to cluster without the wish."""
    runs = [_asked_at_the_desk(n, "cancel", "cancel_booking", *["change_seats"] * (n % 3 == 0)) for n in range(15)]
    runs += [_asked_at_the_desk(n, "change", "change_seats") for n in range(15, 30)]
    found = [one.content for one in tasks([run_of(one.segment()) for one in runs]).values()]
    assert {(one["goals"][0].split(" my")[0], one["tools_used"][-1]) for one in found} == {
        ("I need to cancel", "cancel_booking"),
        ("I need to change", "change_seats"),
    }


def test_what_is_done_by_chance_splits_no_task() -> None:
    runs = [_asked_at_the_desk(n, "change", "change_seats", *["add_note"] * (n % 2)) for n in range(30)]
    assert len(tasks([run_of(one.segment()) for one in runs])) == 1


def _handed_over(number: int, summary: str) -> Script:
    one = Script(f"s{number}")
    one.user(f"Please look after the order W{number}17")
    one.tool("get_order", arguments=(("order", f"W{number}17"),))
    one.tool("hand_over", arguments=(("note", summary.format(number)),))
    one.feedback("positive")
    return one


def test_sentences_that_an_agent_writes_anew_leave_no_step_open() -> None:
    words = ("lamp", "chair", "table", "shelf", "stool", "couch")

    def found(summary: str) -> list[ArtifactCandidate]:
        runs = [_handed_over(n, summary.replace("WORD", words[n])) for n in range(6)]
        runs += [_served(n, wish, (f"{wish}_order", "here")) for wish in ("cancel", "pack") for n in range(6)]
        made = tasks([run_of(one.segment()) for one in runs]).values()
        return [one for one in made if "hand_over" in one.content["tools_used"]]

    (one,) = found("The customer wants a WORD and is angry about {}.")
    assert one.content["slots"]["note"]["source"] == "written"
    assert found("{}-WORD") == [], "nobody knows which code to give"


def test_what_most_do_for_wishes_in_like_words_leads_to_the_goal() -> None:
    runs = [_asked_at_the_desk(n, "change", *["change_seats"] * (n % 3 > 0)) for n in range(15)]
    runs += [_asked_at_the_desk(n, "cancel", "cancel_booking") for n in range(15, 45)]
    made = [one.content for one in tasks([run_of(one.segment()) for one in runs]).values()]
    steps = {one["goals"][0]: (one["tools_used"][-1], one["steps"][-1]["optional"]) for one in made}
    assert steps == {
        "I need to change my booking <booking>": ("change_seats", True),
        "I need to cancel my booking <booking>": ("cancel_booking", False),
    }


def test_a_wish_that_led_elsewhere_or_that_any_task_has_is_no_goal() -> None:
    runs = [_asked_at_the_desk(n, "change", "change_seats") for n in range(12)]
    runs += [_asked_at_the_desk(n, "change the address of") for n in range(12, 14)]
    runs += [_asked_at_the_desk(n, "cancel", "cancel_booking") for n in range(14, 26)]
    for number, one in enumerate(runs):
        if number % 4 == 3:
            one.steps[0] = replace(one.steps[0], text="I need some help with my booking")
    found = [one.content for one in tasks([run_of(one.segment()) for one in runs]).values()]
    assert sorted(goal for one in found for goal in one["goals"]) == [
        "I need to cancel my booking <booking>", "I need to change my booking <booking>",
    ]  # fmt: skip


def test_to_look_and_then_do_this_or_that_is_no_procedure() -> None:
    def statuses(other: str) -> set[Status]:
        runs = [_asked_at_the_desk(n, "change", "change_seats" if n % 3 else other) for n in range(15)]
        return {one.status for one in tasks([run_of(one.segment()) for one in runs]).values()}

    assert statuses("get_weather") == {Status.ACTIVE}
    assert statuses("hand_over") == set()


def test_what_is_done_for_wishes_without_a_word_in_common_is_a_habit() -> None:
    def statuses(wishes: Sequence[str]) -> set[Status]:
        runs = []
        for number, wish in enumerate(wishes):
            one = Script(f"s{number}")
            if wish:
                one.user(f"{wish}. " + "It is long, and no part of it is short enough to stand as a title. " * 4)
            for line in ("make trial", "make tidy", "git diff"):
                one.command(line)
            one.feedback("positive")
            runs.append(one)
        return {found.status for found in tasks([run_of(one.segment()) for one in runs]).values()}

    assert statuses(["Crash at start", "Wrong sums", "Typos", "Slow pages", "Bad dates", "Lost mails"]) == set()
    assert statuses([""] * 6) == {Status.ACTIVE}
