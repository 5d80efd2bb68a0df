"""What is known of what was said: what holds, what replaces what, and where two sides stand."""

import random
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hmx_pipeline.compiler.extract import contributions, statements
from hmx_pipeline.compiler.knowledge.claims import claims
from hmx_pipeline.compiler.knowledge.facts import tells
from hmx_pipeline.compiler.knowledge.knowledge_records import records
from hmx_pipeline.compiler.registry import is_statement
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.knowledge import Memory
from hmx_pipeline.contracts.limits import KNOWLEDGE_VALUES
from hmx_pipeline.intake.steps import step_of
from hmx_pipeline.stages import ending_index
from tests.support.inprocess import events_log, evidence_logs
from tests.support.records import START_MS, event
from tests.support.segments import Script
from tests.support.sessions import interleaved
from tests.support.talk import Turn, holding, knowledge_of, known, said


def texts(records: Any, kind: str = "memory") -> list[str]:
    return sorted(record["text"] for record in records if record["kind"] == kind)


def of_turns(*sessions: tuple[Turn, ...]) -> list[dict[str, Any]]:
    return knowledge_of([e for n, turns in enumerate(sessions) for e in said(f"s{n}", *turns, at=n)])


def test_what_a_user_states_is_known_with_its_source() -> None:
    (record,) = of_turns(("Hi! Just so you know, our database is Postgres.",))
    assert record["text"] == "Our database is Postgres"
    assert record["body"] | {"subject": "team's database", "predicate": "is", "object": "Postgres"} == record["body"]
    assert record["source_events"] == ["s0-0"]
    assert record["kind"] == "memory"
    assert record["status"] == "active"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Always ask for the order number first.", "Always ask for the order number first"),
        ("Never log out customers.", "Never log out customers"),
        ("Never add comments to code.", "Never add comments to code"),
        ("I want you to always reply within two sentences.", "Always reply within two sentences"),
        ("Going forward, reply in French.", "Always reply in French"),
        ("From now on you must answer in German.", "Always answer in German"),
        ("From now on refunds above 50 EUR need approval by Ada.", "Refunds above 50 EUR need approval by Ada"),
        ("Refunds over 50 EUR must be approved by Maria.", "Refunds over 50 EUR must be approved by Maria"),
        ("Every release must not be tagged by hand.", "Every release must not be tagged by hand"),
        ("Do not give discounts above 10 %.", "Do not give discounts above 10 %"),
        ("Please stop using exclamation marks.", "Stop using exclamation marks"),
    ],
)
def test_a_standing_instruction_is_known_by_its_form(text: str, kept: str) -> None:
    (record,) = of_turns((text,))
    assert (record["kind"], record["text"]) == ("policy", kept)
    assert record["body"]["negated"] == bool({"never", "not", "stop"} & set(kept.lower().split()))


@pytest.mark.parametrize(
    "text",
    [
        "Do not delete the file.", "Do not push that without asking.", "Do not push yet.", "Stop it.",
        "Stop the server.",
        "Stop asking me questions.", "Stop working on tests.", "The order must be cancelled by Maria.",
        "My refund must be approved by Maria.", "Must be controlled by configuration.",
        "Refunds must be approved by tomorrow.", "From now on I need rest.",
        "He told me to never mention names.", "Always said so to Ada.", "Never tell me that again.",
        "I always ask for the bill.", "I'd prefer not to be transferred.", "I will make sure to find the order.",
        "I would rather not be called.", "The manual says always log out of the panel.", "Always do what they say.",
    ],
)  # fmt: skip
def test_an_order_for_a_single_case_is_none_for_every(text: str) -> None:
    assert not [claim for claim in claims(text, "user") if claim.memory is Memory.POLICY]


@pytest.mark.parametrize(
    "text",
    [
        "Our admin password is Sommer2026.", "The PIN for the vault is Sesam.", "My API key is Rosebud.",
        "The production secret is Rosebud.", "our credentials for the shop are Rosebud",
    ],
)  # fmt: skip
def test_a_credential_is_nothing_to_know(text: str) -> None:
    assert claims(text, "user") == ()


def test_a_later_statement_of_a_user_ends_the_earlier_one() -> None:
    old, new = sorted(
        of_turns(("Our database is Postgres.",), ("Our database is MySQL now.",)), key=lambda r: r["text"], reverse=True
    )
    assert (old["status"], old["superseded_by"]) == ("superseded", new["record_id"])
    assert old["validity"]["end"] == new["validity"]["start"]
    assert new["status"] == "active"


def test_what_is_lacked_now_is_not_told_as_if_it_had_never_been() -> None:
    told = [record["text"] for record in of_turns(("We don't have Entire-Session anymore.",))]
    assert told == ["We do not have Entire-Session anymore"]


def test_negation_is_carried_and_ends_what_it_denies() -> None:
    records = of_turns(("We use Redis.", "We use Kafka."), ("We don't use Redis any more.",))
    assert texts(holding(records)) == ["We do not use Redis", "We use Kafka"]
    assert [r["body"]["negated"] for r in holding(records) if "Redis" in r["text"]] == [True]


@pytest.mark.parametrize(
    ("before", "after", "holds"),
    [
        ("We use Jira.", "We use Linear now instead of Jira.", ["We do not use Jira", "We use Linear"]),
        ("We use Jira.", "We moved from Jira to Linear.", ["We do not use Jira", "We moved to Linear"]),
        ("We use Stripe.", "Actually we switched from Stripe to Adyen", ["We do not use Stripe", "We use Adyen"]),
        ("We use Stripe.", "We replaced Stripe with Adyen.", ["We do not use Stripe", "We use Adyen"]),
        ("Our carrier is UPS.", "The carrier is DHL, not UPS.", ["The carrier is DHL"]),
        (
            "Our warehouse is in Hamburg.",
            "Correction: the warehouse is in Bremen now, not in Hamburg.",
            ["The warehouse is in Bremen"],
        ),
    ],
)
def test_what_is_said_to_replace_something_does(before: str, after: str, holds: list[str]) -> None:
    assert texts(holding(of_turns((before,), (after,)))) == holds


@pytest.mark.parametrize(
    "text",
    [
        "The bug is in Redis.", "My brother is in Hamburg.", "The office is in the building.",
        "Is our office in Berlin?",
        "We replaced the old one with a new one.", "We moved from there to here.",
    ],
)  # fmt: skip
def test_what_has_no_place_and_what_has_no_name_gives_nothing(text: str) -> None:
    assert claims(text, "user") == ()


def test_what_many_sessions_say_is_surer_and_what_assistants_say_less_sure() -> None:
    once = of_turns(("We use Redis.",))[0]["confidence"]
    often = of_turns(("We use Redis.",), ("we use redis",), ("We use Redis",))[0]["confidence"]
    told = of_turns((("assistant", "The billing service runs on Nomad."),))[0]["confidence"]
    assert told < once < often


def test_assistants_that_differ_leave_a_conflict_until_a_user_settles_it() -> None:
    sides = (
        (("assistant", "The billing service runs on Nomad."),),
        (("assistant", "The billing service runs on Mesos."),),
    )
    disputed = of_turns(*sides)
    (conflict,) = [record for record in disputed if record["kind"] == "conflict"]
    assert conflict["status"] == "unresolved"
    assert [side["object"] for side in conflict["body"]["sides"]] == ["Mesos", "Nomad"]
    assert set(conflict["source_events"]) == {"s0-0", "s1-0"}
    settled = of_turns(*sides, ("The billing service runs on Nomad.",))
    assert [record["status"] for record in settled if record["kind"] == "conflict"] == ["resolved"]
    assert texts(holding(settled)) == ["The billing service runs on Nomad"]


def test_a_value_that_is_called_as_a_conflict_is_stands_beside_the_conflict() -> None:
    records = of_turns(
        (("assistant", "The billing service runs on Conflict."),),
        (("assistant", "The billing service runs on Mesos."),),
    )
    assert sorted(record["kind"] for record in records) == ["conflict", "memory", "memory"]
    assert texts(records) == ["The billing service runs on Conflict", "The billing service runs on Mesos"]


def test_an_assistant_does_not_overrule_a_user() -> None:
    records = of_turns(("The billing service runs on Nomad.",), (("assistant", "The billing service runs on Mesos."),))
    assert texts(records) == ["The billing service runs on Nomad"]


def test_standing_instructions_are_policies_and_can_be_turned_round() -> None:
    records = of_turns(("Always run the linter before committing.",), ("Never run the linter before committing.",))
    assert texts(holding(records), "policy") == ["Never run the linter before committing"]
    assert sorted(record["status"] for record in records) == ["active", "superseded"]


@pytest.mark.parametrize(
    "text",
    [
        "do not do that yet", "Always do it like this.", "> never push to main", "```\nnever push to main\n```",
        'He said "our database is Postgres".', "Is our database Postgres?", "If our database is Postgres, say so.",
        "I prefer to use a gift card instead.",
        "never mind", "I always forget to run it", "it never works", "The problem is the database.",
    ],
)  # fmt: skip
def test_what_is_asked_supposed_quoted_or_passing_gives_nothing(text: str) -> None:
    assert claims(text, "user") == ()


def test_a_withdrawn_statement_gets_an_end() -> None:
    """A segment that speaks again without it withdraws it; nothing else does."""
    log = evidence_logs(events_log(said("s0", "Our database is Postgres."), 1).values(), 1)
    (record,) = known(log).values()
    gone = withdrawn_later(log)
    assert gone["record_id"] == record["record_id"]
    assert gone["status"] == "withdrawn"
    assert gone["validity"]["end"]


def withdrawn_later(log: Any) -> dict[str, Any]:
    *_, first, end = log[0]
    value = first.value.replace(b'"withdrawn":false', b'"withdrawn":true')
    assert value != first.value
    again = type(first)(0, 2, end.timestamp + 5_000, first.key, value, first.headers)
    barrier = type(end)(0, 3, end.timestamp + 6_000, end.key, end.value.replace(b'"b"', b'"c"'), end.headers)
    (record,) = known({0: [first, end, again, barrier]}).values()
    return record


SAYINGS = (
    "Our database is Postgres.", "Our database is MySQL.", "Our database is not MySQL.", "We use Redis.",
    "We don't use Redis.", "Always run the linter before committing.", "Never run the linter before committing.",
    "I prefer tabs over spaces.", "I prefer spaces over tabs.", "My goal is to ship version 2 in May.",
    "We switched from Postgres to MySQL.", "We switched from MySQL to CockroachDB.", "We now use Kafka.",
    "We no longer use Redis.", "We replaced Redis with Valkey.", "Please don't run the linter anymore.",
)  # fmt: skip
TURNS = st.sampled_from(SAYINGS) | st.tuples(
    st.just("assistant"), st.sampled_from(["The api runs on Nomad.", "The api runs on Mesos."])
)


@pytest.mark.requirement("E-27")
@pytest.mark.parametrize("most", [256, 1])
@settings(max_examples=settings().max_examples // 2)
@given(
    told=st.lists(st.lists(TURNS, min_size=1, max_size=3), min_size=1, max_size=6),
    dice=st.randoms(use_true_random=False),
)
def test_any_interleaving_leaves_the_same_knowledge_to_the_byte(
    told: list[list[Turn]], dice: random.Random, most: int
) -> None:
    """Ids and times too: they are made from what was said, not from when it came. Also where a value is a word, as more
    things have it than an ending may reach."""
    sessions = [said(f"s{n}", *turns, at=n) for n, turns in enumerate(told)]
    one_by_one = [e for session in sessions for e in session]
    with patch.dict(ending_index._MOST, {False: most, True: most}):
        assert by_id(knowledge_of(interleaved(sessions, dice))) == by_id(knowledge_of(one_by_one))


def by_id(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(records, key=lambda record: str(record["record_id"]))


def test_a_dispute_without_end_keeps_its_newest_sides() -> None:
    names = [f"{a}{b}" for a in "KLMNPRSTV" for b in ("amo", "eru", "ilo", "ona", "uba")]
    records = of_turns(*((("assistant", f"The billing service runs on {name}."),) for name in names))
    (conflict,) = [record for record in records if record["kind"] == "conflict" and record["status"] == "unresolved"]
    shown = [side["object"] for side in conflict["body"]["sides"]]
    assert sorted(shown) == sorted(names[-KNOWLEDGE_VALUES:])


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("My primary goal is to change my flight to a nonstop", []),
        ("My goal is to ship version 2 in May", ["My goal is to ship version 2 in May"]),
        ("Jolene: We are planning to play chess next Saturday.", []),
        ("I'm a silver member.", []),
        ("I'm a member of the platform team.", ["I am a member of the platform team"]),
        ("Jolene: I am hoping to inspire others with my work.", []),
        ("Jolene: We are planning to open a chess school.", ["Jolene: We are planning to open a chess school"]),
        ("I love camping trips, 'cause it is calm there", ["I love camping trips"]),
        ("Ledger uses `json.__dumps__` for its reports", ["Ledger uses json.__dumps__ for its reports"]),
        ("Ledger uses has_add, has_change, etc.", []),
        ("Hi, I'm Mei Brown, and I'm calling about a flight", ["I am Mei Brown"]),
    ],
)
def test_what_lasts_is_stated_as_it_was_said(text: str, stated: list[str]) -> None:
    assert [claim.text for claim in claims(text, "user")] == stated


def test_who_a_user_is_stands_in_what_is_known_of_them_and_alone_is_no_fact() -> None:
    said = ("Hi, I'm Mei Brown.", "I prefer window seats. My email is mei@x.org."), ("My name is Ada Stone.",)
    assert texts(of_turns(*said)) == ["Mei Brown: I prefer window seats", "Mei Brown: My email is mei@x.org"]


@pytest.mark.parametrize(
    ("error", "kept"), [("user not found", []), ("server is busy", ["Ada: My email is ada@x.org"])]
)
def test_what_was_looked_up_and_not_found_is_not_as_it_was_said(error: str, kept: list[str]) -> None:
    sessions = Script("s1"), Script("s2")
    for one in sessions:
        one.user("My name is Ada. My email is ada@x.org")
        one.tool("find_user", ok=False, values=("ada@x.org",), error=error)
    found = [c for one in sessions for c in contributions(one.segment()) if c.pattern_type == "fact"]
    assert [record.text for record in records(found)] == kept


@pytest.mark.parametrize(("found_by", "times", "kept"), [("ada@x.org", 1, 0), ("ada@x.org", 2, 1), ("W-99", 1, 1)])
def test_a_customer_who_is_looked_up_speaks_of_one_case(found_by: str, times: int, kept: int) -> None:
    sessions = [Script(f"s{n}") for n in range(times)]
    for one in sessions:
        one.user("My email is ada@x.org. I live in Ghent.")
        one.tool("find", values=(found_by,))
    found = [c for one in sessions for c in contributions(one.segment()) if c.pattern_type == "fact"]
    assert sum("Ghent" in record.text for record in records(found)) == kept


@pytest.mark.parametrize("value", ["Ada", "Ada Stone"])
@pytest.mark.parametrize(
    "lasting",
    [
        "The checkout service runs on Kubernetes.",
        "I prefer pnpm over npm.",
        "My favourite editor is Helix.",
    ],
)
def test_who_is_named_in_a_call_is_no_customer_for_that(value: str, lasting: str) -> None:
    one = Script("s1")
    one.user(f"My name is Ada Stone. {lasting}")
    one.tool("git_config", values=(value,))
    (known,) = records([c for c in contributions(one.segment()) if c.pattern_type == "fact"])
    assert lasting.rstrip(".").split(" ", 1)[1] in known.text


@pytest.mark.parametrize("found_by", ["Ada", "ada@x.org"])
def test_a_lasting_rule_stands_whoever_says_it(found_by: str) -> None:
    one = Script("s1")
    one.user("My name is Ada. My email is ada@x.org. From now on always answer in German.")
    one.tool("find", values=(found_by,))
    (rule,) = [c for c in contributions(one.segment()) if c.pattern_type == "policy"]
    assert (rule.body["subject"], rule.body["passes"]) == ("answer in German", False)


def test_a_customer_is_looked_up_by_both_names_too_and_what_they_say_of_things_stands() -> None:
    one = Script("s1")
    one.user("My name is Ada Stone. I live in Ghent. The ledger runs on Nomad. Can you look at it?")
    one.tool("find", values=("Ada", "Stone", "9000"))
    found = [c for c in contributions(one.segment()) if c.pattern_type == "fact"]
    assert [record.text for record in records(found)] == ["The ledger runs on Nomad"]


def test_a_value_beside_one_that_the_sentence_does_not_name_is_none() -> None:
    assert claims("We use Redis in other places.", "user") == ()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("SN-21405 muss in Lübeck verzollt werden", 0),
        ("SN-21405 must be cleared in Hull", 0),
        ("SN-21405 must always be cleared in Hull", 1),
        ("Shipments must be cleared in Hull", 1),
    ],
)
def test_a_request_about_what_the_session_then_handles_is_no_standing_rule(text: str, kept: int) -> None:
    one = Script("s1")
    one.user(text)
    one.tool("clear", values=("SN-21405", "hull"))
    found = [c for c in contributions(one.segment()) if c.pattern_type == "policy"]
    assert len(found) == kept


def stands(*segments: Script) -> list[str]:
    """What holds of facts and rules that these sessions state."""
    made: dict[tuple[str, str], list[Contribution]] = {}
    for one in segments:
        for c in contributions(one.segment()):
            if c.pattern_type in ("fact", "policy"):
                made.setdefault((c.pattern_type, c.pattern_key), []).append(c)
    return [record.text for own in made.values() for record in records(own)]


def test_what_an_agent_says_to_itself_while_it_works_stands_when_it_is_said_again() -> None:
    def working(session: str, *then: str) -> Script:
        one = Script(session)
        one.user("Please mend the parser")
        one.agent("SymPy usually uses `bin/test`.")
        one.tools(then)
        return one

    assert stands(working("s1", "read_file")) == []
    assert stands(working("s1")) == ["SymPy usually uses bin/test"]
    assert stands(working("s1", "read_file"), working("s2", "read_file")) == ["SymPy usually uses bin/test"]


def asked(text: str, then: str, session: str = "s1", before: str = "") -> Script:
    """One message, and what the agent does next: edits a file, calls a tool, or nothing."""
    one = Script(session)
    if before:
        one.agent(before)
    one.user(text)
    if then == "edit":
        one.add(Role.ACTION, name="edit", values=("stamps.go",), ok=True)
    elif then:
        one.tool(then, values=("Rome", "stamps"))
    return one


@pytest.mark.parametrize(
    ("text", "then", "kept"),
    [
        ("The stamps module uses time.Now() without a zone.", "edit", False),
        ("The stamps module uses time.Now() without a zone.", "read_file", True),
        ("We use Snowflake for the warehouse.", "edit", True),
        ("Add tests for new handlers.", "edit", False),
        ("Add tests for new handlers.", "", True),
        ("Every handler must log its input.", "read_file", True),
        ("Every handler must log its input.", "edit", False),
        ("Do not give discounts above 10 %.", "edit", True),
        ("Always answer in German.", "edit", True),
        ("The origin is Rome.", "search_flights", False),
        ("The origin is Rome.", "read_file_list", False),
        ("The release branch is Rome.", "search_flights", True),
    ],
)
def test_what_is_said_of_a_request_stands_when_another_session_says_it_too(text: str, then: str, kept: bool) -> None:
    once = stands(asked(text, then))
    assert len(once) == kept
    again = stands(asked(text, then), asked(text, then, "s2"))
    assert len(again) == 1
    assert once in ([], again)


@pytest.mark.parametrize(
    ("text", "before", "kept"),
    [
        ("The current ticket is in basic economy.", "", True),
        ("The current ticket is in basic economy. Does that allow for changes?", "", False),
        ("The current ticket is in basic economy.", "Which ticket do you have?", False),
        ("Our database is Postgres. Can you check it?", "Which one do you use?", True),
    ],
)
def test_a_remark_beside_a_question_is_about_the_question(text: str, before: str, kept: bool) -> None:
    assert len(stands(asked(text, "", before=before))) == kept


def test_who_has_to_say_who_they_are_gives_no_rules_but_by_their_form() -> None:
    said = "My name is Ada Stone. Use the credit card for what the gift card lacks."
    assert stands(asked(said, "")) == []
    assert stands(asked(f"{said} Never call me.", "")) == ["Never call me"]


def test_a_step_of_an_assistants_argument_is_no_statement() -> None:
    assert claims("So the billing service uses Nomad.", "assistant") == ()
    assert [claim.text for claim in claims("The billing service uses Nomad.", "assistant")]


def of_people(*told: tuple[str, str]) -> list[dict[str, Any]]:
    """What each of a team says in a session of its own, a minute apart."""
    sessions = (said(f"s{n}", text, at=n, metadata={"user_id": who}) for n, (who, text) in enumerate(told))
    return knowledge_of([event for session in sessions for event in session], sharing="team")


def test_two_users_that_differ_leave_a_conflict_until_one_of_them_is_heard_again() -> None:
    sides = (("ada", "The billing service runs on Nomad."), ("ben", "The billing service runs on Mesos."))
    assert sorted(r["status"] for r in of_people(*sides)) == ["active", "active", "unresolved"]
    settled = of_people(*sides, ("ada", "The billing service runs on Mesos."))
    assert [r["status"] for r in settled if r["kind"] == "conflict"] == ["resolved"]
    assert texts(holding(settled)) == ["The billing service runs on Mesos"]


def test_a_user_who_says_that_something_has_changed_contradicts_nobody() -> None:
    told = of_people(("ada", "The billing service runs on Nomad."), ("ben", "The billing service now runs on Mesos."))
    assert texts(holding(told)) == ["The billing service now runs on Mesos"]


def test_what_a_user_says_of_themselves_is_no_other_users() -> None:
    told = of_people(("ada", "My editor is Kestrel."), ("ben", "My editor is Plover."))
    assert texts(holding(told)) == ["ada: My editor is Kestrel", "ben: My editor is Plover"]


def test_a_state_change_ends_what_was_said_and_a_user_who_differs_from_it_is_in_conflict() -> None:
    def change(n: int, to: str) -> dict[str, Any]:
        return event(f"c{n}", 0, at=START_MS - 86_400_000 + 60_000 * n, event_type="state_change",
                     content={"key": "checkout flag", "to": to})  # fmt: skip

    user = said("u", "The checkout flag is off.", at=1)
    assert texts(holding(knowledge_of([*user, change(2, "on")]))) == ["checkout flag is on"]
    differing = knowledge_of([change(0, "on"), *user])
    assert [record["status"] for record in differing if record["kind"] == "conflict"] == ["unresolved"]


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("The checkout flag is now off.", ("checkout flag", "off")),
        ("retention.days: set to 30", ("retention.days", "30")),
        ("The request timeout is set to 30 seconds.", ("request timeout", "30 seconds")),
        ("Language: `Rust` 1.93", ("Language", "Rust 1.93")),
    ],
)
def test_a_setting_is_a_fact(text: str, about: tuple[str, str]) -> None:
    (claim,) = claims(text, "user")
    assert (claim.subject, claim.value) == about


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("Since 2026-01-15 we deploy with Jenkins.", "2026-01-15", None),
        ("We deploy with Jenkins until 2030-05-01.", None, "2030-05-02"),
        ("Nous déployons avec Jenkins depuis 2026-01-15.", "2026-01-15", None),
        ("The freeze flag is on until 2030-05-01.", None, "2030-05-02"),
    ],
)
def test_a_statement_holds_from_when_and_until_when_it_says(text: str, start: str | None, end: str | None) -> None:
    (record,) = of_turns((text,))
    assert record["status"] == "active"
    assert start is None or record["validity"]["start"].startswith(start)
    assert (record["validity"].get("end") or "")[:10] == (end or "")


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("message", {"role": "user", "text": "Our warehouse is BigQuery"}),
        ("message", {"role": "user", "text": "We no longer use Jenkins"}),
        ("message", {"role": "user", "text": "Ben: my editor is Emacs"}),
        ("message", {"role": "assistant", "text": "The billing service uses Postgres"}),
        ("feedback", {"signal": "positive", "comment": "Always run the linter first"}),
        ("x-acme-finding", {"finding": "The disk is full"}),
    ],
)
def test_what_states_something_is_known_by_its_event_alone(kind: str, content: dict[str, Any]) -> None:
    """Else a statement would wait for the end of its segment."""
    said = [event(content={"role": "user", "text": "Hello"}), event(event_type=kind, content=content)]
    script = Script("s")
    script.steps += [step_of(one, START_MS, index) for index, one in enumerate(said)]
    segment = script.segment()
    assert tells(segment)
    assert not tells(msgspec.structs.replace(segment, steps=segment.steps[:1]))
    assert statements(segment) == [c for c in contributions(segment) if is_statement(c.pattern_type)] != []


def test_who_the_user_is_is_told_by_two_names_alone() -> None:
    def told(*texts: str) -> bool:
        script = Script("s")
        for text in texts:
            script.user(text)
        segment = script.segment()
        assert tells(segment) or not statements(segment)
        return tells(segment)

    assert not told("My user ID is anna_3.", "Yes, my user ID is anna_3.")
    assert told("My user ID is anna_3.", "Sorry, my user ID is anna_4.")
    assert told("My user ID is anna_3.", "I like tea.")


def test_we_are_no_team_where_the_sentence_names_who_we_are() -> None:
    assert texts(of_turns(("Ana: I met my partner, and we are planning to open a shop",))) == []
    assert texts(of_turns(("Ana: We are planning to open a shop",))) != []


def test_what_a_question_lists_is_what_it_asks_about() -> None:
    listed = "The naming is odd:\n\n- Checkpoints are used for Resume\n- Sessions hold them\n\n"
    assert texts(of_turns((f"{listed}Any suggestions?",))) == []
    assert texts(of_turns((f"{listed}Please keep it so.",))) == ["Checkpoints are used for Resume"]
