"""What was erased does not come back: through what it ended, a client's clock, what waited, or an operator's words."""

from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest

from hmx_pipeline.contracts.erasure import ErasedScope, Erasure
from hmx_pipeline.contracts.limits import CLOCK_SKEW_MS
from hmx_pipeline.contracts.ruling import RulingVerb
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.intake.control_records import erase, ruling
from hmx_pipeline.queries.knowledge_query import RulingRequest, make_ruling
from hmx_pipeline.stages import ending_index, pattern_compiling
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.topology import EVENTS_DLQ, EVIDENCE, KNOWLEDGE
from tests.support.inprocess import Ran, barrier_record, run, sessions_fold, signed, tick_record
from tests.support.records import START_MS, LogRecord, event
from tests.support.talk import Turn, said

Event = dict[str, Any]
Made = Callable[[int, int], LogRecord]


def by(subject: str, session: str, *turns: Turn, at: int = 0) -> list[Event]:
    return said(session, *turns, at=at, metadata={"user_id": subject} if subject else {})


def passed(offset: int, at: int) -> LogRecord:
    return barrier_record(at, 0, offset, f"b{offset}")


def erased(scope: ErasedScope, name: str) -> Made:
    def made(offset: int, at: int) -> LogRecord:
        asked = Erasure(erasure_id="e", tenant_id="acme", scope=scope, name=name, at=START_MS + at)
        return signed(erase(asked, 0), 0, offset, at)

    return made


def folded(told: Sequence[Event | Made]) -> tuple[Ran, list[Event]]:
    """Of one partition, ten milliseconds apart: the sessions stage, and what a reader then finds as knowledge."""
    log: list[LogRecord] = []
    for one in [*told, passed]:
        n, at = len(log), 10 * len(log)
        log.append(one(n, at) if callable(one) else LogRecord(0, n, START_MS + at, b"k", orjson.dumps(one)))
    log.append(tick_record(60_000, 0, len(log)))
    log.append(passed(len(log), 60_010))
    ran = run(sessions_fold, log)
    evidence = [LogRecord(0, n, START_MS + n, o.key, o.value, o.headers) for n, o in enumerate(ran.on(EVIDENCE))]
    last = {output.key: output.value for output in run(PatternsFold, evidence).on(KNOWLEDGE)}
    return ran, [orjson.loads(value) for value in last.values() if value is not None]


@pytest.mark.parametrize("who", ["", "u"])
def test_what_only_an_erased_update_stated_leaves_no_record(who: str) -> None:
    own = by(who, "s1", "Our warehouse is Snowflake.")
    update = by(who, "s2", "We switched from Snowflake to BigQuery.", at=5)
    texts = {record["text"] for record in folded([*own, *update])[1]}
    assert any("BigQuery" in text for text in texts)
    left = folded([*own, *update, passed, erased(ErasedScope.SESSION, "s2")])[1]
    assert {record["text"] for record in left if record["status"] == "active"} == {"Our warehouse is Snowflake"}
    assert "BigQuery" not in str(left)


@pytest.mark.parametrize("ahead_ms", [120_000, 10**11])
def test_a_clients_clock_that_is_ahead_saves_nothing_from_erasure(ahead_ms: int) -> None:
    told = by("u1", "s1", "My home address is 12 Oak Street.")
    told[0]["timestamp"] = format_ms(START_MS + ahead_ms)
    assert folded(told)[1]
    assert not folded([*told, passed, erased(ErasedScope.SUBJECT, "u1")])[1]


def test_what_waits_and_names_the_erased_is_turned_away() -> None:
    first, _, last = by("", "s1", "Hi there", "Lost", "My home address is 12 Oak Street.")
    last["metadata"] = {"user_id": "u1"}
    ran, known = folded([first, last, erased(ErasedScope.SUBJECT, "u1")])
    assert [episode["id"] for episode in ran.episodes] == [first["event_id"]]
    assert [letter.value for letter in ran.on(EVENTS_DLQ)] == [None]
    assert known == []


def test_what_is_left_of_a_correction_holds_no_other_words_of_an_erased_session() -> None:
    """Of the sessions that rejected an edit of a file, the record tells what each of them was about."""

    def rejecting(session: str, wish: str) -> list[Event]:
        turns: list[tuple[str, Event]] = [
            ("message", {"role": "user", "text": f"Change the readme for {wish} please"}),
            ("file_edit", {"path": "README.md", "action": "modify"}),
            ("feedback", {"signal": "negative", "comment": "Keep the license section."}),
        ]
        return [event(session, n, at=START_MS - 9_000 + n, event_type=t, content=c) for n, (t, c) in enumerate(turns)]

    told = [*rejecting("s1", "quetzal"), *rejecting("s2", "toucan")]
    (record,) = (one for one in folded(told)[1] if "license" in one["text"])
    corrected = ruled(record, told, text="Keep the licence.")
    for decided in ([passed, corrected, passed, erased(ErasedScope.SESSION, "s1")],
                    [passed, erased(ErasedScope.SESSION, "s1"), passed, corrected]):  # fmt: skip
        left = folded([*told, *decided])[1]
        assert "Keep the licence." in {one["text"] for one in left}
        assert "quetzal" not in str(left)


def test_a_correction_goes_with_what_it_was_made_from_and_the_corrected_stays_out() -> None:
    told = [
        *by("u1", "s1", "My home address is 12 Oak Street."),
        *by("u1", "s2", "My home address is 9 Elm Road.", at=5),
    ]
    oak = next(record for record in folded(told)[1] if "Oak" in record["text"])
    corrected = ruled(oak, told, value="12 Oak Street, flat 7")
    assert "flat 7" in str(folded([*told, passed, corrected])[1])
    left = folded([*told, passed, corrected, passed, erased(ErasedScope.SESSION, "s1")])[1]
    assert [record["text"] for record in left] == ["u1: My home address is 9 Elm Road"]


def stated(count: int) -> list[Event | Made]:
    """Sessions that each name another warehouse, and time after each, so that each is published."""
    told: list[Event | Made] = []
    for n in range(count):
        told += by("", f"s{n}", f"Our warehouse is Quetzal{n}.", at=5 * n)
        told.append(passed)
    return told


@pytest.mark.parametrize("bound", ["PATTERN_CONTRIBUTIONS", "TENANT_CONTRIBUTIONS"])
def test_what_a_bound_has_dropped_is_found_by_the_erasure_of_its_session(
    bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"hmx_pipeline.stages.pattern_state.{bound}", 2)
    told = stated(8)
    published = str(folded(told)[1])
    names = [n for n in range(8) if f"Quetzal{n}" in published]
    assert len(names) > 2
    for n in names:
        assert f"Quetzal{n}" not in str(folded([*told, passed, erased(ErasedScope.SESSION, f"s{n}")])[1])


def test_what_an_ending_said_before_its_form_became_a_common_word_is_found_by_its_erasure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(ending_index._MOST, False, 2)
    told = [
        *by("", "s1", "Our warehouse is Snowflake."),
        *by("", "s2", "We switched from Snowflake to BigQuery.", at=5),
        passed,
        *by("", "s3", "Our archive is Snowflake.", "Our lake is Snowflake.", "Our mart is Snowflake.", at=9),
        passed,
    ]
    assert "BigQuery" in str(folded(told)[1])
    assert "BigQuery" not in str(folded([*told, erased(ErasedScope.SESSION, "s2")])[1])


def ruled(record: Event, told: Sequence[Event | Made], at: int = START_MS, **words: str) -> Made:
    """A correction that comes when memory knows all contributions that were told."""
    evidence = [orjson.loads(one.value or b"") for one in folded(told)[0].on(EVIDENCE)]
    sources = [one for one in evidence if "contribution_id" in one]
    asked = make_ruling(record, RulingVerb.CORRECT, RulingRequest(**words), at, sources=sources)
    return lambda offset, at: signed(ruling(asked, 0), 0, offset, at)


FIRST_ERASED = pytest.mark.parametrize("erased_first", [False, True], ids=["ruled, erased", "erased, ruled"])


def decided(corrected: Made, session: str, *, erased_first: bool) -> list[Event | Made]:
    gone = erased(ErasedScope.SESSION, session)
    return [passed, gone, passed, corrected] if erased_first else [passed, corrected, passed, gone]


def rejected(session: str, wish: str, comment: str, at: int = 0) -> list[Event]:
    turns: list[tuple[str, Event]] = [
        ("message", {"role": "user", "text": f"Change the readme for {wish} please"}),
        ("file_edit", {"path": "README.md", "action": "modify"}),
        ("feedback", {"signal": "negative", "comment": comment}),
    ]
    return [event(session, n, at=START_MS - 9_000 + at + n, event_type=t, content=c) for n, (t, c) in enumerate(turns)]


@FIRST_ERASED
def test_a_correction_holds_no_goal_of_an_erased_session_that_said_something_else_of_the_file(
    erased_first: bool,
) -> None:
    """The goals of a record are those of all sessions that rejected an edit of its file; its sources are fewer."""
    told = [*rejected("s1", "quetzal", "Keep the license section."), *rejected("s2", "toucan", "Mind the headings.", 9)]
    (record,) = (one for one in folded(told)[1] if "license" in one["text"])
    corrected = ruled(record, told, text="Keep the licence.")
    left = folded([*told, *decided(corrected, "s2", erased_first=erased_first)])[1]
    assert "Keep the licence." in {one["text"] for one in left}
    assert "toucan" not in str(left)


@FIRST_ERASED
def test_a_correction_holds_no_words_of_an_erased_session_beyond_the_sources_that_a_record_names(
    erased_first: bool,
) -> None:
    told = [one for n in range(70) for one in rejected(f"s{n}", f"quetzal{n}x", "Keep the license section.", 10 * n)]
    (record,) = (one for one in folded(told)[1] if "license" in one["text"])
    assert len(record["source_memory_ids"]) == 64
    corrected = ruled(record, told, text="Keep the licence.")
    left = folded([*told, *decided(corrected, "s0", erased_first=erased_first)])[1]
    assert "Keep the licence." in {one["text"] for one in left}
    assert "quetzal0x" not in str(left)


def test_where_what_is_left_cannot_be_compiled_the_erased_words_go_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = [*by("", "s1", "Our warehouse is Quetzal."), passed, *by("", "s2", "Our warehouse is Toucan.", at=5), passed]
    compile_all = pattern_compiling.records

    def failing(evidence: Sequence[Any], *about: Any, **more: Any) -> Any:
        if {each.session_id for each in evidence} == {"s2"}:
            raise IndexError("content that nobody thought of")
        return compile_all(evidence, *about, **more)

    monkeypatch.setattr(pattern_compiling, "records", failing)
    assert "Quetzal" in str(folded(told)[1])
    assert "Quetzal" not in str(folded([*told, erased(ErasedScope.SESSION, "s1")])[1])


def active(known: Sequence[Event]) -> set[str]:
    return {one["text"] for one in known if one["status"] == "active"}


@FIRST_ERASED
@pytest.mark.parametrize("bound", ["PATTERN_CONTRIBUTIONS", "TENANT_CONTRIBUTIONS"])
def test_a_correction_goes_with_its_session_though_a_bound_had_dropped_what_it_was_made_from(
    bound: str, erased_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"hmx_pipeline.stages.pattern_state.{bound}", 2)
    told = stated(8)
    records = [one for one in folded(told)[1] if one["status"] == "withdrawn"]
    assert len(records) >= 2
    for record in records:
        (name,) = (f"s{n}" for n in range(8) if f"Quetzal{n}" in record["text"])
        corrected = ruled(record, told, text="Our warehouse is Toucan.", value="Toucan")
        assert "Toucan" in str(folded([*told, passed, corrected])[1])
        left = folded([*told, *decided(corrected, name, erased_first=erased_first)])[1]
        assert "Toucan" not in str(left)


@FIRST_ERASED
@pytest.mark.parametrize("gone", ["s1", "s2"])
def test_a_correction_of_an_updated_value_goes_with_the_session_that_named_the_thing(
    gone: str, erased_first: bool
) -> None:
    """The update alone does not say of what it is the new value."""
    told = [
        *by("", "s1", "The quetzal warehouse is Snowflake."),
        passed,
        *by("", "s2", "We switched from Snowflake to BigQuery.", at=5),
    ]
    (record,) = (one for one in folded(told)[1] if "warehouse is BigQuery" in one["text"])
    corrected = ruled(record, told, value="Toucan")
    left = folded([*told, *decided(corrected, gone, erased_first=erased_first)])[1]
    assert ("quetzal" in str(left), "Toucan" in str(left)) == ((False, False) if gone == "s1" else (True, True))


@FIRST_ERASED
def test_a_correction_of_an_updated_value_holds_no_events_and_tags_of_the_update(erased_first: bool) -> None:
    told = [
        *by("", "s1", "The quetzal warehouse is Snowflake."),
        passed,
        *said("toucan", "We switched from Snowflake to BigQuery.", at=5, tags=["toucan-rollout"]),
    ]
    (record,) = (one for one in folded(told)[1] if "warehouse is BigQuery" in one["text"])
    assert (record["tags"], record["source_events"]) == (["toucan-rollout"], ["toucan-0"])
    corrected = ruled(record, told, value="Redshift")
    left = folded([*told, *decided(corrected, "toucan", erased_first=erased_first)])[1]
    assert active(left) == {"The quetzal warehouse is Redshift"}
    assert "toucan" not in str(left)


@pytest.mark.parametrize(
    ("scope", "name"), [(ErasedScope.SESSION, "s1"), (ErasedScope.SUBJECT, "ada"), (ErasedScope.TENANT, "")]
)
def test_a_correction_of_what_memory_still_showed_long_after_its_erasure_holds_no_words_of_it(
    scope: ErasedScope, name: str
) -> None:
    told = by("ada", "s1", "Our quetzal warehouse is Snowflake.")
    (record,) = folded(told)[1]
    corrected = ruled(record, told, START_MS + CLOCK_SKEW_MS + 60_000, value="Toucan")
    left = folded([*told, passed, erased(scope, name), passed, corrected])[1]
    assert "quetzal" not in str(left)


@FIRST_ERASED
def test_a_correction_of_an_updated_value_that_an_earlier_release_published_goes_with_the_next_erasure(
    erased_first: bool,
) -> None:
    """Such a record names the update alone."""
    told = [
        *by("", "s1", "The quetzal warehouse is Snowflake."),
        passed,
        *by("", "s2", "We switched from Snowflake to BigQuery.", at=5),
    ]
    (record,) = (one for one in folded(told)[1] if "warehouse is BigQuery" in one["text"])
    record["source_memory_ids"] = record["source_memory_ids"][1:]
    corrected = ruled(record, told, value="Redshift")
    assert "quetzal" not in str(folded([*told, *decided(corrected, "s1", erased_first=erased_first)])[1])


@FIRST_ERASED
def test_a_correction_by_its_value_alone_holds_no_other_words_of_an_erased_session(erased_first: bool) -> None:
    """Its text is the last session's, with another value."""
    told = [
        *by("", "s1", "Our warehouse is Snowflake."),
        passed,
        *by("", "s2", "Our warehouse is Snowflake until quetzal day.", at=5),
    ]
    (record,) = folded(told)[1]
    corrected = ruled(record, told, value="Toucan")
    assert active(folded([*told, passed, corrected])[1]) == {"Our warehouse is Toucan until quetzal day"}
    left = folded([*told, *decided(corrected, "s2", erased_first=erased_first)])[1]
    assert active(left) == {"team's warehouse is Toucan"}


@FIRST_ERASED
def test_a_correction_by_its_value_alone_holds_no_other_words_of_a_session_that_stated_another_value(
    erased_first: bool,
) -> None:
    """Where an update names a value that others state too, the text is that of the session which named the thing."""
    told = [
        *by("", "s1", "Our warehouse is BigQuery."),
        passed,
        *by("", "s2", "Our warehouse is Snowflake until quetzal day.", at=5),
        passed,
        *by("", "s3", "We switched from Snowflake to BigQuery.", at=9),
    ]
    (record,) = (one for one in folded(told)[1] if "warehouse is BigQuery until quetzal" in one["text"])
    corrected = ruled(record, told, value="Toucan")
    left = folded([*told, *decided(corrected, "s2", erased_first=erased_first)])[1]
    assert active(left) & {"team's warehouse is Toucan"}
    assert "quetzal" not in str(left)


def typed(session: str, kind: str, at: int, **content: Any) -> Event:
    return event(session, at=START_MS - 9_000 + at, event_type=kind, content=content)


@FIRST_ERASED
@pytest.mark.parametrize(
    "told",
    [
        [
            typed("s1", "verification.recorded", 0, command="make test", outcome="the quetzal fell"),
            typed("s2", "verification.recorded", 9, command="make test", outcome="passed"),
        ],
        [
            typed("s1", "memory.reinforced", 9, entity_type="handoff", entity_name="h", cues={"tool": "quetzal"}),
            typed("s2", "handoff.created", 0, title="h", summary="over"),
        ],
        [
            typed("s1", "handoff.created", 0, title="h", summary="over", risks=["a quetzal"]),
            *(typed(f"s{n}", "handoff.created", n, title="h", summary="over") for n in range(2, 67)),
        ],
    ],
    ids=["an outcome", "what reinforces", "more sources than a record names"],
)
def test_a_correction_of_an_entity_holds_no_words_of_an_erased_session(told: list[Event], erased_first: bool) -> None:
    (record,) = (one for one in folded(told)[1] if one["kind"] == "entity")
    assert "quetzal" in str(record)
    corrected = ruled(record, told, text="It is done.")
    left = folded([*told, *decided(corrected, "s1", erased_first=erased_first)])[1]
    assert "It is done." in active(left)
    assert "quetzal" not in str(left)


@FIRST_ERASED
def test_a_correction_whose_sources_memory_does_not_know_goes_with_the_next_erasure(erased_first: bool) -> None:
    told = [*by("", "s1", "Our warehouse is Snowflake."), *by("", "s2", "Our lake is Iceberg.", at=5)]
    (record,) = (one for one in folded(told)[1] if "warehouse" in one["text"])
    corrected = ruled(record, [], value="Toucan")
    left = folded([*told, *decided(corrected, "s2", erased_first=erased_first)])[1]
    assert active(left) == set()


def test_a_correction_that_comes_after_an_erasure_rests_on_what_was_said_since() -> None:
    told = [*by("", "s1", "Our warehouse is Snowflake."), passed, erased(ErasedScope.SESSION, "s1"), passed]
    again = by("", "s1", "Our warehouse is Iceberg.", at=2_000)
    (record,) = (one for one in folded([*told, *again])[1] if "Iceberg" in one["text"])
    corrected = ruled(record, [*told, *again], START_MS + 1_000, value="Toucan")
    assert active(folded([*told, *again, passed, corrected])[1]) == {"Our warehouse is Toucan"}


@pytest.mark.parametrize(("scope", "name"), [(ErasedScope.SESSION, "s1"), (ErasedScope.SUBJECT, "ada")])
def test_a_clients_clock_that_is_ahead_saves_no_correction_of_what_memory_still_showed(
    scope: ErasedScope, name: str
) -> None:
    told = by("ada", "s1", "Our quetzal warehouse is Snowflake.")
    told[0]["timestamp"] = format_ms(START_MS + 120_000)
    (record,) = folded(told)[1]
    corrected = ruled(record, told, START_MS + 1_000, value="Toucan")
    left = folded([*told, passed, erased(scope, name), passed, corrected])[1]
    assert "quetzal" not in str(left)
