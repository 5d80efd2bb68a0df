"""A tenant's runs, grouped into tasks in the patterns stage: what is published of them, and when nothing is."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import orjson
import pytest

from hmx_pipeline.compiler.candidate import counting
from hmx_pipeline.compiler.evidence_kind import ArtifactCandidate
from hmx_pipeline.compiler.extract import contributions
from hmx_pipeline.compiler.private_words import of_a_team
from hmx_pipeline.compiler.tasks import own_values
from hmx_pipeline.compiler.tasks.runs import group
from hmx_pipeline.contracts.evidence import Contribution, SegmentOutcome, evidence_key
from hmx_pipeline.contracts.headers import KIND
from hmx_pipeline.stages.executor import Effects, Executor
from hmx_pipeline.stages.fold import POSITION_KEY, Output
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.topology import ARTIFACTS
from tests.support.records import START_MS, LogRecord
from tests.support.runs import HOUR, grouped, run, run_of, tasks
from tests.support.segments import START, Script

LOAD = ("dw describe t_{n}", "dw load t_{n} --region north")
ROTATE = ("vault read k{n}", "vault write k{n} --days 30")


def told(tenant: str = "acme") -> list[Contribution]:
    found = []
    for n in range(7):
        lines = [line.format(n=n) for line in LOAD]
        found.append(run(n, lines, f"Refresh the table t_{n}", tenant=tenant, subject=f"u{n % 3}"))
        lines = [line.format(n=n) for line in ROTATE]
        found.append(run(20 + n, lines, f"Rotate the key k{n}", tenant=tenant, subject=f"u{n % 3}"))
    return found


def record(offset: int, contribution: Contribution, at: int) -> LogRecord:
    key = evidence_key(contribution).encode()
    return LogRecord(0, offset, at, key, contribution.to_json(), [(KIND, b"contribution")])


class Stage:
    """One partition, to which contributions come, each followed by a pause in which all is compiled."""

    def __init__(self) -> None:
        self.executor = Executor(PatternsFold(), 0)
        self.outputs: list[Output] = []
        self.state: dict[str, bytes | None] = {}
        self.counts: Counter[str] = Counter()
        self.offset, self.at = 0, START_MS

    def take(self, contributions: Iterable[Contribution], pause_ms: int = 1) -> list[Output]:
        records = []
        for one in contributions:
            self.at += pause_ms
            records.append(record(self.offset, one, self.at))
            self.offset += 1
        return self._ran(self.executor.run(records))

    def rest(self) -> list[Output]:
        """An hour without evidence but for a withdrawal of what never was: time goes on with the log alone."""
        self.at += 3_600_000
        nobody = run(999, ["x"], "x", tenant="nobody").model_copy(update={"withdrawn": True})
        return self.take([nobody])

    def _ran(self, effects: Effects) -> list[Output]:
        self.outputs += effects.outputs
        self.counts.update(effects.counts)
        self.state.update(effects.changes)
        return list(effects.outputs)

    def live(self) -> dict[str, dict[str, Any]]:
        """What each pattern's newest artifact says, of those that are active."""
        newest: dict[bytes, dict[str, Any]] = {}
        for output in self.outputs:
            if output.topic == ARTIFACTS and output.key is not None:
                if output.value is None:
                    newest.pop(output.key, None)
                else:
                    newest[output.key] = orjson.loads(output.value)
        return {f"{a['tenant_id']} {a['metadata']['pattern']}": a for a in newest.values() if a["status"] == "active"}


SAID = ("content_hash", "confidence", "status", "source_events", "observed_count", "success_rate", "title", "summary")


def said(live: dict[str, dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    return {pattern: tuple(artifact[name] for name in SAID) for pattern, artifact in live.items()}


def stage(contributions: Sequence[Contribution], pause_ms: int = 1) -> Stage:
    made = Stage()
    made.take(contributions, pause_ms)
    made.rest()
    return made


def test_each_task_of_a_tenant_has_an_artifact_of_its_own() -> None:
    live = stage(told()).live()
    steps = sorted(step["command"] for artifact in live.values() for step in artifact["content"]["steps"])
    assert [step.split(" ")[:2] for step in steps] == [
        ["dw", "describe"],
        ["dw", "load"],
        ["vault", "read"],
        ["vault", "write"],
    ]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("pause_ms", [1, 2_000])
def test_the_order_and_the_pace_in_which_runs_come_decide_nothing(seed: int, pause_ms: int) -> None:
    mixed = random.Random(seed).sample(told(), 14)
    assert said(stage(mixed, pause_ms).live()) == said(stage(told()).live())


def test_a_task_that_nothing_is_new_of_is_not_published_again() -> None:
    made = stage(told())
    before = made.live()
    made.take([run(50, ["vault read k50", "vault write k50 --days 30"], "Rotate the key k50", subject="u1")])
    changed = {output.key for output in made.rest() if output.topic == ARTIFACTS}
    names = {pattern: artifact["artifact_id"].encode() for pattern, artifact in before.items()}
    assert len(changed) == 2  # the version before, and the new one
    assert sum(any(name in (key or b"") for key in changed) for name in names.values()) == 1


def test_a_task_whose_runs_are_withdrawn_goes_and_the_others_stay() -> None:
    made = stage(told())
    made.take([one.model_copy(update={"withdrawn": True, "body": {}}) for one in told() if "vault" in str(one.body)])
    made.rest()
    (left,) = made.live().values()
    assert all("dw" in step["command"] for step in left["content"]["steps"])


def test_a_task_without_success_has_no_artifact() -> None:
    failed = [one.model_copy(update={"outcome": SegmentOutcome.FAILURE}) for one in told()]
    assert stage(failed).live() == {}


def test_tenants_learn_apart() -> None:
    made = stage([*told("acme"), *told("zeta")])
    by_tenant = Counter(artifact["tenant_id"] for artifact in made.live().values())
    assert by_tenant == {"acme": 2, "zeta": 2}
    alone = stage(told("acme"))
    assert said(alone.live()).items() <= said(made.live()).items()


def test_a_stage_that_was_restored_says_what_one_that_went_on_says() -> None:
    runs = told()
    whole, first = Stage(), Stage()
    whole.take(runs[:9])
    whole.rest()
    first.take(runs[:9])
    first.rest()
    first.state[POSITION_KEY] = first.executor.position_record(first.offset, "id", ())
    again = Stage()
    assert again.executor.restore(first.state.items()) is not None
    again.offset, again.at, again.outputs = first.offset, first.at, list(first.outputs)
    for each in (whole, again):
        each.take(runs[9:])
        each.rest()
    assert said(again.live()) == said(whole.live())


def test_values_that_two_subjects_use_in_whatever_tasks_are_shown_and_one_subjects_never() -> None:
    """Each port is taken by one subject in the one task; two of them another subject takes in the other."""
    ports = ("Emden", "Kiel", "Wismar")
    move = [run(n, [f"tms look sn-{n}", f"tms move sn-{n} --port {ports[n % 3]}"], f"Move sn-{n} to {ports[n % 3]}",
                subject=f"u{n % 3}") for n in range(9)]  # fmt: skip
    clear = [run(20 + n, [f"zoll look sn-{n}", f"zoll clear sn-{n} --port {ports[n % 2]}"],
                 f"Clear sn-{n} in {ports[n % 2]}", subject=f"u{(n + 1) % 2}") for n in range(6)]  # fmt: skip
    moving = next(found for found in tasks([*move, *clear]).values() if "move" in str(found.content))
    shown = next(slot["like"] for name, slot in moving.content["slots"].items() if name == "port")
    assert set(shown) == {"Emden", "Kiel"}
    assert "Wismar" not in str(moving.content)


def test_what_is_said_where_nothing_is_done_counts_for_the_task_that_it_speaks_of() -> None:
    """Also a constant that one subject alone has used since: another one has named it."""
    runs = [run(n, [f"crm show c{n}", f"crm block c{n}"], f"Block c{n}", subject=f"u{n % 3}") for n in range(6)]
    later = ["crm show c9", "crm ask c9 --via phone", "crm block c9"]
    runs += [run(8, later, "Block c9", subject="u1")]
    chat = Script("chat", start=START + 7 * HOUR, subject="u2")
    chat.user("Ask via phone with `crm ask` before you block anybody")
    chat.feedback("positive", "Thank you, that is how it should be")
    (rule,) = (c for c in contributions(chat.segment()) if c.pattern_type == "run")
    assert rule.body["told"]
    assert rule.outcome is SegmentOutcome.UNKNOWN, "a talk that went well is no run that did"
    (alone,), (found,) = tasks(runs).values(), tasks([*runs, rule]).values()
    assert not any("ask" in step["command"] for step in alone.content["steps"])
    assert [step["command"].split()[1] for step in found.content["steps"]] == ["show", "ask", "block"]
    assert "--via phone" in found.content["steps"][1]["command"]
    assert rule.source_events[0] in found.source_events


def test_a_value_that_two_subjects_wished_for_is_shown_and_one_subjects_is_not() -> None:
    """Two wished for `Kiel`, one alone for `Wismar`; `Emden` is all that u1 ever wishes for."""
    wished = {"u0": ("Kiel", "Wismar", "Wismar"), "u1": ("Emden",) * 3, "u2": ("Rostock", "Kiel", "Kiel")}
    plan = [(subject, port) for at in range(3) for subject, ports in wished.items() for port in (ports[at],)]
    moves = [run(n, [f"tms look sn-{n}", f"tms move sn-{n} --port {port}"], f"Move sn-{n} to {port}", subject=subject)
             for n, (subject, port) in enumerate(plan)]  # fmt: skip
    (found,) = tasks(moves).values()
    assert _ports(found) == {"Kiel"}
    (found,) = tasks(of_a_team(moves)).values()
    assert _ports(found) == {"Kiel", "Wismar", "Emden", "Rostock"}, "a team has no words that one alone may know"


def _ports(found: ArtifactCandidate) -> set[str]:
    return set(found.content["slots"]["port"]["like"])


def test_what_a_user_told_that_looks_like_what_others_have_is_the_users_own() -> None:
    """Though no run has ever used it; another's stays unknown to it."""
    tills = {"u0": "till-oak", "u1": "till-ash"}
    runs = [run(n, [f"cash peek b{n}", f"cash book b{n} --till {tills[f'u{n % 2}']}"], f"Book b{n} on my till",
                subject=f"u{n % 2}") for n in range(6)]  # fmt: skip
    chat = Script("chat", start=START + 9 * HOUR, subject="u2")
    chat.user("By the way, till-elm is where I sit these days")
    (told,) = (c for c in contributions(chat.segment()) if c.pattern_type == "run")
    (own,) = (own for pattern, own in group(counting([*runs, told])).items() if pattern.type == own_values.NAME)
    assert {each.text for each in own_values.state(own)} == {
        "u0: till is till-oak",
        "u1: till is till-ash",
        "u2: till is till-elm",
    }


def test_where_no_event_names_a_subject_nobodys_values_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes as long as to compile the procedure once more."""
    monkeypatch.delattr(own_values, "procedure")
    runs = [run(n, [f"cash peek b{n}", f"cash book b{n} --till oak"], f"Book b{n}") for n in range(6)]
    (own,) = (own for pattern, own in group(counting(runs)).items() if pattern.type == own_values.NAME)
    assert own_values.state(own) == []


def test_a_session_without_a_subject_makes_no_ones_value_everybodys() -> None:
    """It may be the same person's."""

    def booked(number: int, subject: str, centre: str) -> Contribution:
        lines = [f"quota show i{number}", f"quota raise i{number} --charge {centre}"]
        return run(number, lines, f"More compute for i{number}", subject=subject)

    mine = [booked(n, "lotte", "cc-lotte") for n in range(3)] + [booked(3, "", "cc-lotte")]
    theirs = [booked(4 + n, f"u{n}", f"cc-{n}") for n in range(4)]
    assert "cc-lotte" not in "".join(str(found.content) for found in tasks([*mine, *theirs]).values())


def test_a_subcommand_that_a_refusal_names_is_shown_though_one_subject_alone_has_used_it() -> None:
    def assigned(number: int) -> Contribution:
        made = Script(f"tour-{number}", start=START + number * HOUR, subject=f"u{number % 3 if number < 6 else 1}")
        made.user(f"Give lorry l-{number} to the night tour")
        made.command(f"tms show l-{number}")
        if number < 6:
            made.command(f"tour set l-{number} --shift night")
        else:
            made.command(f"tour set l-{number} --shift night", ok=False, error="tour set is outdated, use roster plan")
            made.command(f"roster plan l-{number} --shift night")
        return run_of(made.segment()).model_copy(update={"outcome": SegmentOutcome.SUCCESS})

    (found,) = tasks([assigned(n) for n in range(8)]).values()
    assert [step["command"].split()[:2] for step in found.content["steps"]] == [["tms", "show"], ["roster", "plan"]]


def test_runs_are_of_one_task_whatever_word_of_the_wish_their_acts_take() -> None:
    """What they do it to stands in several acts; what they do stands in one."""
    wishes = {"kim": "let {0} have box{1}", "lee": "{0} collects box{1} today", "ann": "box{1} goes out via {0} please"}
    others = [run(50 + n, [f"dw load t{n}", "dw check"], f"Load t{n}") for n in range(12)]
    haul = [run(n, [f"rates show {who}", f"telex {who} --load box{n}", "diary note"], wishes[who].format(who, n))
            for n, who in enumerate(["kim", "lee", "ann"] * 3)]  # fmt: skip
    assert sorted(len(own) for own in grouped([*haul, *others]).values()) == [9, 12]
    verbs = [run(n, [f"svc {what} web{n}"], f"{what} web{n}") for n, what in enumerate(["stop", "start"] * 5)]
    assert sorted(len(own) for own in grouped([*verbs, *others]).values()) == [5, 5, 12]
