"""What a tenant's tasks are and how each is done, learnt from runs alone: no program, verb or language is known."""

import random
from collections.abc import Sequence

import pytest

from hmx_pipeline.compiler.association import ContingencyTable
from hmx_pipeline.compiler.tasks import run_clusters
from hmx_pipeline.compiler.tasks.procedure import Procedure, procedure, verdict
from hmx_pipeline.compiler.tasks.readings import NONE
from hmx_pipeline.compiler.tasks.run_clusters import RunFeatures, known, tasks
from hmx_pipeline.compiler.tasks.slot_texts import described, like, slot_lines
from hmx_pipeline.compiler.tasks.slots import Instance, Slot
from hmx_pipeline.compiler.tasks.task_run import Run, RunAction, body
from hmx_pipeline.contracts.evidence import segment_rank
from hmx_pipeline.segments.commands import wordlike
from hmx_pipeline.segments.pairing import actions
from tests.support.segments import Script

DAY = 86_400_000
USERS = ("ana", "bo", "cy")


def deed(line: str, ok: bool = True, error: str = "") -> RunAction:
    return RunAction(line, "", (), ok, error, frozenset())


def called(name: str, **arguments: str) -> RunAction:
    return RunAction("", name, tuple(sorted(arguments.items())), True, "", frozenset())


def run(number: int, asked: str, *deeds: RunAction | str, good: bool = True) -> Run:
    """Session `number`, a day after the one before, of one of three users in turn."""
    done = tuple(deed(each) if isinstance(each, str) else each for each in deeds)
    return Run(f"e{number}", f"s{number}", USERS[number % 3], number * DAY, good, (asked,), done)


def learnt(runs: Sequence[Run]) -> Procedure:
    found = procedure(runs)
    assert found is not None
    return found


def steps(found: Procedure) -> list[str]:
    return [step.template.text for step in found.steps]


ROOMS = ("b12", "c7", "a90", "d4", "e55", "f31")


def booked(number: int, *more: RunAction | str, good: bool = True) -> Run:
    room = ROOMS[number % 6]
    return run(
        number,
        f"Reserve room {room} for the board",
        f"rooms check {room}",
        called("calendar_hold", room=room, kind="board"),
        *more,
        f"rooms confirm {room} --deposit 20",
        good=good,
    )


def test_every_step_is_a_whole_action_with_its_constants_and_a_slot_for_what_differs() -> None:
    found = learnt([booked(n) for n in range(6)])
    assert steps(found) == [
        "rooms check <room>",
        "calendar_hold(kind=board, room=<room>)",
        "rooms confirm <room> --deposit 20",
    ]
    assert found.goals[0] == "Reserve room <room> for the board"
    assert found.slots["room"][0].source == "goal"


def test_what_a_slot_is_like_is_told_without_anybodys_value() -> None:
    shown = like(learnt([booked(n) for n in range(6)]).slots["room"])
    assert shown
    assert not set(shown) & set(ROOMS)


def test_what_only_one_subject_has_used_is_no_constant() -> None:
    found = learnt([booked(n, f"note put --code {'k9' if USERS[n % 3] == 'ana' else n}") for n in range(6)])
    assert not any("k9" in step for step in steps(found))


def test_a_value_that_depends_on_the_subject_alone_is_the_users_own() -> None:
    homes = {"ana": "north", "bo": "quay", "cy": "mill"}
    runs = [
        run(n, f"Send box {ROOMS[n % 6]} home", f"post {ROOMS[n % 6]} --to {homes[USERS[n % 3]]}") for n in range(6)
    ]
    found = learnt(runs)
    assert [
        group[0].source for name, group in found.slots.items() if name == "to" or "north" in group[0].values.values()
    ] == ["user"]


def test_an_option_that_came_up_some_day_and_stayed_belongs_to_the_step() -> None:
    runs = [
        run(n, f"Grant {ROOMS[n % 6]}", "look", f"grant {ROOMS[n % 6]}" + (" --by risk" if n >= 5 else ""))
        for n in range(9)
    ]
    assert steps(learnt(runs))[-1].endswith("--by risk")


def test_an_action_that_another_has_replaced_is_gone() -> None:
    runs = [
        run(n, f"Publish {ROOMS[n % 6]}", f"lint {ROOMS[n % 6]}", f"{'hub' if n >= 6 else 'portal'} add {ROOMS[n % 6]}")
        for n in range(9)
    ]
    found = steps(learnt(runs))
    assert any(step.startswith("hub add") for step in found)
    assert not any(step.startswith("portal") for step in found)


def test_an_action_that_is_refused_from_some_day_on_is_gone_as_soon_as_another_has_worked_twice() -> None:
    def published(number: int) -> Run:
        room = ROOMS[number % 6]
        refused = deed(f"portal add {room}", ok=False, error="deprecated, use hub")
        done: list[RunAction | str] = [f"portal add {room}"] if number < 7 else [refused, f"hub add {room} --sla gold"]
        return run(number, f"Publish {room}", f"lint {room}", *done)

    found = steps(learnt([published(n) for n in range(9)]))
    assert not any(step.startswith("portal") for step in found)
    assert found[-1].startswith("hub add")


def test_what_worked_after_a_refusal_takes_its_place_though_the_run_was_given_up_later() -> None:
    def published(number: int) -> Run:
        room = ROOMS[number % 6]
        refused = deed(f"portal add {room}", ok=False, error="deprecated, use hub")
        done: list[RunAction | str] = [f"portal add {room}"] if number < 7 else [refused, f"hub add {room} --sla gold"]
        end = [f"tell {room}"] if number != 7 else []
        return run(number, f"Publish {room}", f"lint {room}", *done, *end, good=number != 7)

    found = learnt([published(n) for n in range(9)])
    (value,) = found.slots
    assert steps(found) == [f"lint <{value}>", f"hub add <{value}> --sla gold", f"tell <{value}>"]


def test_a_run_that_is_stuck_on_a_refusal_ends_no_step() -> None:
    runs = [booked(n) for n in range(6)]
    stuck = deed("rooms confirm a90 --deposit 20", ok=False, error="closed")
    runs += [run(n, "Reserve room a90 for the board", "rooms check a90", stuck, "look", good=False) for n in (7, 8)]
    assert steps(learnt(runs))[-1] == "rooms confirm <room> --deposit 20"


def test_an_action_that_failed_once_and_works_again_stays() -> None:
    def published(number: int) -> Run:
        room = ROOMS[number % 6]
        done: list[RunAction | str] = [f"portal add {room}"]
        if number == 5:
            done = [deed(f"portal add {room}", ok=False, error="busy"), f"hub add {room}"]
        return run(number, f"Publish {room}", f"lint {room}", *done)

    assert steps(learnt([published(n) for n in range(9)]))[-1].startswith("portal add")


@pytest.mark.parametrize(
    ("asked", "seen", "told"),
    [
        (("Open room {0}",), "", "goal"),
        (("Open a room", "It is {0}"), "", "heard"),
        (("Open a room",), "every", "earlier"),
        (("Open a room",), "heard", "heard"),
        (("Open a room",), "mixed", ""),
    ],
)
def test_where_a_value_comes_from_is_told_only_if_most_runs_agree(asked: Sequence[str], seen: str, told: str) -> None:
    """Only the first message is the wish: what a user says later was asked for."""

    def opened(number: int) -> Run:
        room = ROOMS[number % 6]
        own = frozenset([room] if seen else [])
        heard = own if seen == "heard" or (seen == "mixed" and number % 2) else frozenset[str]()
        act = deed(f"hall open {room}")._replace(seen=own, heard=heard)
        made = run(number, "", "hall greet", act)
        return made._replace(asked=tuple(text.format(room) for text in asked), subject="")

    (slot,) = described(learnt([opened(n) for n in range(12)]).slots).values()
    assert slot.get("told", slot["source"]) == told


@pytest.mark.parametrize("many", [False, True])
def test_a_pool_of_values_is_no_choice(many: bool) -> None:
    halls = ["north", "quay", "mill", *(f"h{chr(97 + n)}ll" for n in range(9))] if many else ["north", "quay", "mill"]

    def opened(number: int) -> Run:
        hall = halls[(number if number % 4 else 0) % len(halls)]
        return run(number, f"Open {hall} please", f"hall open {hall}")

    (slot,) = described(learnt([opened(n) for n in range(16)]).slots).values()
    shown = "\n".join(slot_lines({"hall": slot}))
    assert ("north" in shown) is not many
    assert "north" in slot["like"]


@pytest.mark.parametrize("again", [True, False])
def test_values_of_the_same_case_over_and_over_are_no_choice_and_no_shape_is_a_value(again: bool) -> None:
    def opened(number: int) -> Instance:
        hall, day = ("north", "quay")[number % 2], f"2024-05-1{number % 2 if again else number}"
        made = run(number, "Open it", f"hall open {hall} --on {day}")
        return Instance(made, made.deeds[0], made.deeds[0].parts(NONE)[0], 0)

    told = [opened(number) for number in range(8)]
    halls = Slot("hall", "chosen", [(one.simple.words[1], one) for one in told], ("north", "quay"))
    days = Slot("day", "chosen", [(dict(one.simple.options)["--on"] or "", one) for one in told])
    shown = list(slot_lines(described({"hall": [halls], "day": [days]})))
    assert shown == ([] if again else ["<hall>: north, quay"])


def test_slots_that_are_filled_from_one_place_take_one_line() -> None:
    slots = {name: {"source": "earlier", "like": []} for name in ("order", "item", "card")}
    lines = list(
        slot_lines(slots | {"size": {"source": "goal", "like": ["0000"]}, "town": {"source": "goal", "like": []}})
    )
    assert lines == [
        "<size> stands in the wish and looks like 0000",
        "<order>, <item>, <card> are what earlier results say",
        "<town> stands in the wish",
    ]


def test_what_is_to_be_done_is_never_a_slot_filled_with_what_an_earlier_text_says() -> None:
    """A subcommand that one subject alone has used is not shown, and no other value fits there either."""

    def helped(number: int) -> Run:
        room = ROOMS[number % 6]
        odd = number in (1, 4)  # `bo` alone
        way = RunAction(f"help {'crane' if odd else 'tow'} {room}", "", (), True, "", frozenset(["crane", "tow"]))
        return run(number, f"Stuck: {room}", f"look {room}", way, f"free {room}")

    looked, way, freed = steps(learnt([helped(n) for n in range(9)]))
    assert way == f"help tow {looked.split()[1]}"
    assert freed


def blocked(number: int, *before: str, told: str = "") -> Run:
    """A customer is blocked, and somebody says something to it."""
    room = ROOMS[number % 6]
    made = run(number, f"Block {room}", f"crm show {room}", *before, f"crm block {room} --level 2")
    return made._replace(told=(told,) if told else ())


def test_what_users_told_to_do_is_a_step_once_it_was_done_though_the_other_runs_forgot_it() -> None:
    def asked(number: int) -> str:
        return f"crm ask {ROOMS[number % 6]} --via phone"

    plain = [blocked(n) for n in range(6)]
    rule = run(6, "", good=False)._replace(told=("please ask via phone before you block anybody",))
    later = [
        blocked(7, asked(7)),
        blocked(8, told="blocked without asking! run crm ask via phone first"),
        blocked(9, asked(9)),
        blocked(10, told="you forgot to ask via phone"),
    ]
    assert [step.split()[:2] for step in steps(learnt([*plain, rule, *later]))] == [
        ["crm", "show"], ["crm", "ask"], ["crm", "block"],
    ]  # fmt: skip
    assert not any(step.optional for step in learnt([*plain, rule, *later]).steps)
    assert not any(step.startswith("crm ask") for step in steps(learnt([*plain, *later[:1]])))


def test_what_most_users_ask_for_in_passing_is_no_rule_for_all() -> None:
    """A few did it of late, and most had spoken of it: that is what they wanted, and not how the task is done."""

    def swept(number: int, *more: str) -> Run:
        done = run(number, f"Sweep {ROOMS[number % 6]}", f"sweep {ROOMS[number % 6]} --all", *more)
        return done._replace(told=("the lamp order is wrong, cancel the order of the lamp",))

    runs = [swept(n) for n in range(1, 14)] + [swept(n, f"order cancel lamp-{n}4") for n in (14, 15)]
    assert [step for step in steps(learnt(runs)) if "cancel" in step] == []


def test_an_option_that_users_told_to_give_belongs_to_the_step_once_it_was_given() -> None:
    def raised(number: int, *more: str, told: str = "") -> Run:
        room = ROOMS[number % 6]
        done = [f"limits show {room}", " ".join([f"limits set {room} --to {number}00", *more])]
        return run(number, f"Raise {room} to {number}00", *done)._replace(told=(told,) if told else ())

    named = frozenset(["form-19"])
    rule = run(6, "", good=False)._replace(told=("nobody gets more unless we put --evidence form-19 on it",))
    later = raised(8, "--evidence form-19")._replace(common=named, named=named)
    forgot = raised(7, told="what about the evidence? redo it with form-19")
    runs = [*(raised(n) for n in range(1, 6)), rule, forgot, later]
    assert steps(learnt(runs))[-1].endswith("--evidence form-19")
    assert not steps(learnt([one for one in runs if not one.told]))[-1].endswith("form-19")


def test_what_users_told_is_tied_to_its_step_in_other_forms_of_its_words() -> None:
    """Also where every run since had to be told; and where the step has worked only in a run that ended badly."""
    asked = [blocked(n, f"crm work_out_fees {ROOMS[n % 6]} --policy p7d") for n in (6, 7)]
    forgot = [blocked(n, told="but the fees were not worked out! that comes first, with p7d") for n in (8, 9)]
    found = steps(learnt([*map(blocked, range(6)), *asked, *forgot]))
    assert any(step.startswith("crm work_out_fees") for step in found)
    rule = run(6, "", good=False)._replace(told=("plus rien sans identité confirmée par nom-jf",))
    tried = blocked(7, f"crm identite {ROOMS[1]} --par nom-jf")._replace(good=False)
    tried = tried._replace(common=frozenset({"nom-jf", "identite"}), named=frozenset({"nom-jf", "identite"}))
    forgot = [blocked(n, told="sans confirmer l'identité par nom-jf !") for n in (8, 9)]
    found = steps(learnt([*map(blocked, range(6)), rule, tried, *forgot]))
    assert [step.split()[1] for step in found] == ["show", "identite", "block"]


def test_a_value_that_users_told_to_give_is_a_constant_though_a_text_before_it_had_it() -> None:
    def enabled(number: int, ramp: str) -> Run:
        line = f"flags enable f{number}q {ramp}".strip()
        seen = frozenset({"5"}) if ramp else frozenset[str]()
        made = run(number, f"Turn on f{number}q", f"flags show f{number}q", deed(line)._replace(seen=seen))
        known = frozenset({"5"}) if ramp else frozenset[str]()
        return made._replace(common=known, named=known)

    rule = run(6, "", good=False)._replace(told=("flags enable gets --ramp 5 from now on",))
    found = steps(learnt([*(enabled(n, "") for n in range(5)), rule, *(enabled(n, "--ramp 5") for n in (7, 8, 9))]))
    assert found[-1].endswith("--ramp 5")


def test_what_users_told_not_to_do_and_nobody_does_any_more_is_no_step() -> None:
    shouted = [blocked(n, f"crm shout {ROOMS[n % 6]} --via phone") for n in range(5)]
    rule = run(6, "", good=False)._replace(told=("never again use crm shout via phone",))
    found = steps(learnt([*shouted, rule, blocked(7), blocked(8)]))
    assert not any(step.startswith("crm shout") for step in found)


def test_an_option_that_turned_out_badly_is_left_out_however_often_it_was_chosen() -> None:
    def drained(number: int) -> Run:
        room = ROOMS[number % 6]
        bad = [f"pump fast {room}", deed(f"seal {room}", ok=False, error="SealError: wet")] if number % 2 else []
        return run(number, f"Drain {room}", f"look {room}", *bad, f"pump slow {room}", f"seal {room}")

    found = steps(learnt([drained(n) for n in range(10)]))
    assert [step.rsplit(" ", 1)[0] for step in found] == ["look", "pump slow", "seal"]


def test_a_way_out_that_worked_is_told_with_what_it_is_run_with_and_one_that_did_not_is_not() -> None:
    def opened(number: int) -> Run:
        room = ROOMS[number % 6]
        stuck = deed(f"door open {room}", ok=False, error=f"LockError: {room} is held by the porter")
        mended = [stuck, deed(f"door kick {room}", ok=False, error="no"), f"porter page --room {room} --tone soft"]
        return run(
            number, f"Open {room}", f"door look {room}", *(mended if number % 2 else []), f"door open {room}", "log"
        )

    (remedy,) = learnt([opened(n) for n in range(9)]).remedies
    slot = remedy.step.text.rsplit(" ", 1)[1]
    assert [way.template.text for way in remedy.ways] == [f"porter page --room {slot} --tone soft"]
    assert "LockError" in remedy.error
    assert not any(room in remedy.error for room in ROOMS)


def test_an_error_that_only_stood_in_the_output_is_the_one_that_an_event_has_named() -> None:
    def opened(number: int) -> Run:
        room = ROOMS[number % 6]
        stuck = deed(f"door open {room}", ok=False, error=f"{'LockError: ' if number == 1 else ''}{room} is jammed")
        mended = [stuck, f"porter page --room {room} --tone soft"] if number in (1, 5) else []
        return run(number, f"Open {room}", f"door look {room}", *mended, f"door open {room}", "log")

    (remedy,) = learnt([opened(n) for n in range(9)]).remedies
    assert (remedy.worked, remedy.tried) == (2, 2)


def test_an_act_that_was_mistyped_leaves_the_order_of_the_steps_alone() -> None:
    def drained(number: int) -> Run:
        late = number % 3 == 0
        slip, stuck = deed("pump", ok=False, error="usage"), deed("seal b", ok=False, error="wet")
        right = [slip, "pump start --rate 3", "probe b", "seal b"]
        return run(number, f"Dry {ROOMS[number % 6]}", *(["probe b", stuck, *right[1:2], "seal b"] if late else right))

    runs = [drained(n) for n in (0, 1, 2, 3, 6, 9, 12)]
    assert steps(learnt(runs)) == ["pump start --rate 3", "probe b", "seal b"]


def test_of_two_steps_that_no_run_has_both_none_is_always_done() -> None:
    def opened(number: int) -> Run:
        way = f"door find --name {ROOMS[number % 6]}" if number < 20 else f"door seek --mail {ROOMS[number % 6]}"
        told = ("door find --name it first",) if number % 5 == 0 else ()
        return run(number, f"Open {ROOMS[number % 6]}", way, f"door open {ROOMS[number % 6]}")._replace(told=told)

    found = learnt([opened(number) for number in range(24)])
    assert [(step.template.words[0], step.optional) for step in found.steps if step.template.words[0] != "open"] == [
        ("find", True), ("seek", True),
    ]  # fmt: skip


def test_steps_stand_in_the_order_in_which_no_step_failed() -> None:
    def packed(number: int) -> Run:
        room = ROOMS[number % 6]
        right = [f"wrap {room}", f"lift {room}", f"ship {room}"]
        wrong = [f"lift {room}", f"wrap {room}", deed(f"ship {room}", ok=False, error="ShipError: empty"), *right[::1]]
        return run(number, f"Pack {room}", *(wrong if number % 3 == 0 else right))

    assert [step.split()[0] for step in steps(learnt([packed(n) for n in range(9)]))] == ["wrap", "lift", "ship"]


def test_a_run_that_gave_up_says_nothing_of_the_steps_and_one_that_failed_on_them_does() -> None:
    runs = [booked(n) for n in range(6)]
    found = learnt(runs)
    gave_up = run(7, "Reserve room b12 for the board", "rooms check b12", good=False)
    held, refused = called("calendar_hold", room="b12", kind="board"), deed("rooms confirm b12 --deposit 20", ok=False)
    failed = run(8, "Reserve room b12 for the board", "rooms check b12", held, refused, good=False)
    assert [verdict(found, each) for each in (runs[0], gave_up, failed)] == [True, None, False]


def test_the_order_in_which_runs_come_decides_nothing() -> None:
    runs = [booked(n, *(["rooms air --hours 2"] if n % 2 else []), good=n != 4) for n in range(12)]
    wanted = learnt(runs)
    for seed in range(5):
        found = learnt(random.Random(seed).sample(runs, len(runs)))
        assert (steps(found), found.goals, found.remedies) == (steps(wanted), wanted.goals, wanted.remedies)
        assert described(found.slots) == described(wanted.slots)


@pytest.mark.parametrize("opening", ["Hi! ", "Good morning, ", "Servus. "])
def test_a_greeting_is_no_part_of_what_is_wished_for(opening: str) -> None:
    runs = [
        run(n, f"{opening if n % 2 else ''}Open {ROOMS[n % 6]} for me", f"door open {ROOMS[n % 6]}") for n in range(6)
    ]
    assert learnt(runs).goals == ("Open <open> for me",)


def test_a_task_is_named_after_what_is_wanted_and_not_after_who_wants_it() -> None:
    who = [("Ana", "Bell"), ("Bo", "Carr"), ("Cy", "Dunn")]
    runs = []
    for n in range(9):
        first, last = who[n % 3]
        wish = ("Hi! I'd like to exchange a lamp I bought", "I need to exchange my lamp for a blue one")[n % 2]
        find, swap = called("find_user", first=first, last=last), called("exchange_item", kind="lamp")
        one = run(n, wish, find, swap)
        runs.append(one._replace(asked=(wish, f"Sure, my name is {first} {last}.")))
    assert sorted(learnt(runs).goals) == [
        "I need to exchange my lamp for a blue one",
        "I'd like to exchange a lamp I bought",
    ]


def test_no_good_run_makes_no_procedure() -> None:
    assert procedure([booked(n, good=False) for n in range(6)]) is None
    assert procedure([]) is None


KINDS = {
    "renew a licence": (
        ["Renew the licence of the scanner {x}", "{x} needs its licence renewed", "The licence of {x} has run out"],
        ["licq find {x}", "licq extend {x} --years 2"],
    ),
    "rotate a certificate": (
        ["Renew the certificate of the scanner {x}", "{x} needs it", "The certificate of {x} ran out"],
        ["openssl req {x}", "kubectl rollout restart {x}"],
    ),
    "block a customer": (
        ["Sperre den Kunden {x}", "Kunde {x} zahlt nicht, sperre ihn", "Bitte {x} sperren"],
        ["crm konto {x}", "crm sperre {x} --stufe 3"],
    ),
    "move a container": (
        ["コンテナ{x}を港へ移動して", "{x}を別の港に移動", "港の変更をお願い: コンテナ{x}"],
        ["yard find {x}", "crane move {x} --to quay"],
    ),
}  # fmt: skip


def segments() -> list[tuple[str, dict[str, object], str]]:
    dice = random.Random(7)
    found = []
    for kind, (goals, lines) in KINDS.items():
        for n in range(9):
            value = f"{dice.choice('abcdefgh')}{dice.randrange(100, 999)}"
            script = Script(f"{kind}-{n}")
            script.user(dice.choice(goals).format(x=value))
            for line in lines:
                script.command(line.format(x=value))
            made = body(script.segment(), actions(script.segment()))
            assert made is not None
            found.append((f"{kind}-{n}", made, kind))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_like_words_without_a_common_action_are_two_tasks_and_one_task_in_other_words_is_one(seed: int) -> None:
    told = random.Random(seed).sample(segments(), 36)
    kinds = {name: kind for name, _, kind in told}
    found = tasks([known(name, segment_rank(name, "e"), made["said"], made["done"]) for name, made, _ in told])
    assert sorted(sorted({kinds[name] for name in own}) for own in found if len(own) > 1) == [
        [k] for k in sorted(KINDS)
    ]
    assert sum(len(own) for own in found if len(own) >= 8) >= 34


def _done(n: int, act: str, at: int, *said: str) -> RunFeatures:
    return known(f"r{n}", n, said, ["crm", "crm list", act, f"{act} --of", "sms", "sms note"], at)


def test_a_task_that_is_done_otherwise_from_some_day_on_is_one_and_two_that_go_on_beside_each_other_are_two() -> None:
    others = [known(f"o{n}", 100 + n, ["other"], [f"dw load{n % 3}", "dw"], n) for n in range(9)]
    old = [_done(n, "debit drop now then", n, "remove", f"a{n % 2}") for n in range(5)]
    late = [_done(20 + n, "hub revoke all at once", 20 + n, "cancel", f"b{n % 2}") for n in range(2)]
    beside = [_done(20 + n, "hub revoke all at once", n, "cancel", f"b{n % 2}") for n in range(4)]
    assert {run.name for run in (*old, *late)} in map(set, tasks([*others, *old, *late]))
    assert {run.name for run in old} in map(set, tasks([*others, *old, *beside]))


def test_telling_tasks_apart_costs_no_more_per_run_however_much_the_runs_say_and_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each run has a few of ever more words and acts: pairs of them would grow with the square of the runs."""
    made: list[ContingencyTable] = []

    def table(*counts: int) -> ContingencyTable:
        made.append(ContingencyTable(*counts))
        return made[-1]

    def cost(runs: int) -> int:
        dice, few = random.Random(1), runs // 12
        some = [[str(j * few + dice.randrange(few)) for j in range(12)] for _ in range(runs)]
        together = run_clusters._Likeness([known(f"r{n}", n, own, own) for n, own in enumerate(some)])
        made.clear()
        together._told_apart([0] * runs)
        return len(made)

    monkeypatch.setattr(run_clusters, "ContingencyTable", table)
    assert cost(960) <= 6 * cost(240)


def test_tasks_that_begin_alike_are_told_apart_as_many_as_they_are_but_not_without_end() -> None:
    def parts(kinds: int) -> int:
        runs = [known(f"r{n}", n, [f"w{n % kinds}"], [f"a{n % kinds}"]) for n in range(10 * kinds)]
        return len({*run_clusters._Likeness(runs)._told_apart([0] * len(runs))})

    assert parts(12) == 12
    assert parts(40) <= 17


def test_a_segment_in_which_nothing_was_done_is_no_run() -> None:
    script = Script("s")
    script.user("Thanks a lot")
    assert body(script.segment(), actions(script.segment())) is None


def test_a_line_that_is_not_whole_is_no_line_to_run() -> None:
    script = Script("s")
    script.user("Do it")
    script.command("echo " + "x" * 500)
    made = body(script.segment(), actions(script.segment()))
    assert made is not None
    assert made["acts"][0][0] == ""
    assert wordlike("echo")


def test_a_phrase_that_hardly_anyone_says_is_no_goal_of_the_task() -> None:
    verbs, things = ("change", "alter", "adjust", "amend", "swap", "edit"), ("lamp", "chair")
    wishes = [f"I would like to {verb} my {thing} order" for verb in verbs for thing in things]
    wishes += ["Two roads diverged in a wood"] * 2
    runs = [run(n, wish, f"order change {ROOMS[n % 6]}") for n, wish in enumerate(wishes)]
    assert not [goal for goal in learnt(runs).goals if "roads" in goal]
    odd = [run(n, f"{wish} of mine", f"door open {ROOMS[n]}") for n, wish in enumerate(("Open it", "Unlock", "Let in"))]
    assert len(learnt(odd).goals) == 3, "where no word is common, each wish may be"
