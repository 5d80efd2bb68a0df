"""What is private to a subject is not there for anybody else, and takes nobody else's place."""

from collections import Counter
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.retrieval.correction_index import Corrections
from hmx_pipeline.retrieval.episode_index import EpisodeIndex, QueryTerm, Term
from hmx_pipeline.retrieval.memory_index import Corrected, IndexEntry, KnowledgeIndexEntry, MemoryIndex
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.postings import (
    document_number,
    pack_assigned,
    pack_postings,
    pack_row,
    subject_hash,
    unpack_assigned,
)
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.retrieval.terms import terms

PEOPLE = ("ann", "bob")


class Turn(NamedTuple):
    session: str
    subject: str
    """That it names itself."""
    read: bool
    """Whether a process reads what was appended so far before it."""
    searched: bool
    """Whether it is a document."""


turns = st.lists(
    st.builds(Turn, st.sampled_from("xyz"), st.sampled_from(("", "", *PEOPLE)), st.booleans(), st.booleans()),
    max_size=30,
)


class Log:
    """What is appended, and what a process has read of it."""

    def __init__(self) -> None:
        self.index, self.term = EpisodeIndex(), Term()
        self._rows = self._postings = b""
        self._assigned: list[bytes] = []
        self._first: dict[str, str] = {}
        self.whose: list[tuple[int, str, str]] = []
        """Document, its session, and whom it names."""

    def append(self, at: int, turn: Turn) -> None:
        if turn.subject and turn.session not in self._first:
            self._first[turn.session] = turn.subject
            self._assigned.append(pack_assigned(turn.session, turn.subject))
        if turn.searched:
            number = document_number(0, at)
            self._rows += pack_row(number, turn.session, at, 1, turn.subject)
            self._postings += pack_postings(number, [1])[0]
            self.whose.append((number, turn.session, turn.subject))

    def read(self) -> None:
        self.index.assign(self._assigned[self.index.subjects.assigned :])
        self.index.extend(self._rows[self.index.read :])
        self.index.refresh(self.term, self._postings[self.term.read :])

    def plainly(self, subject: str) -> set[int]:
        return {n for n, session, own in self.whose if (own or self._first.get(session, "")) in ("", subject)}

    def seen(self, subject: str, limit: int) -> list[int]:
        among = self.index.among(visible=self.index.subjects.visible(subject))
        return [number for number, _ in self.index.best([QueryTerm(self.term)], limit, among)]


@given(turns)
def test_a_document_is_seen_by_its_own_subject_else_by_its_sessions_and_otherwise_by_all(said: list[Turn]) -> None:
    log = Log()
    for at, turn in enumerate(said):
        if turn.read:
            log.read()
        log.append(at, turn)
    log.read()
    for subject in ("", *PEOPLE, "nobody"):
        assert set(log.seen(subject, len(said) + 1)) == log.plainly(subject)


@given(turns, st.integers(1, 3))
def test_the_best_of_what_is_seen_are_the_first_of_all_that_is_seen(said: list[Turn], limit: int) -> None:
    log = Log()
    for at, turn in enumerate(said):
        log.append(at, turn)
    log.read()
    for subject in ("", *PEOPLE):
        assert log.seen(subject, limit) == log.seen(subject, len(said) + 1)[:limit]


def test_without_subjects_nothing_is_compared() -> None:
    log = Log()
    for at in range(5):
        log.append(at, Turn("x", "", read=False, searched=True))
    log.read()
    assert log.index.among(visible=log.index.subjects.visible("ann")) is None


def test_an_assignment_is_read_as_it_was_written() -> None:
    mark, subject = unpack_assigned(pack_assigned("s/1", "Zoë 🎈"))
    assert subject == "Zoë 🎈"
    assert mark == unpack_assigned(pack_assigned("s/1", "ann"))[0]


def test_nobody_has_the_hash_of_nobody() -> None:
    assert subject_hash("") == 0
    assert all(subject_hash(str(n)) for n in range(1_000))


def entry(words: str, subject: str, at: int = 0) -> IndexEntry:
    return IndexEntry(b"", "policy", at, (), dict(Counter(terms(words))), subject)


def test_others_entries_are_not_found_and_push_nothing_out() -> None:
    index = MemoryIndex()
    index.put((f"other{n}", entry("deploy staging", "bob", 100 + n)) for n in range(50))
    index.put([("own", entry("deploy", "ann", 1)), ("shared", entry("staging", "", 2))])
    asked = terms("deploy staging")
    for subject, wanted in (("ann", {"own", "shared"}), ("", {"shared"}), ("carol", {"shared"})):
        assert {hit.name for hit in index.best(asked, 2, subject=subject)} == wanted
        assert {hit.name for hit in index.newest("policy", 2, subject=subject)} == wanted
    assert [hit.name for hit in index.newest("policy", 2, subject="bob")] == ["other49", "other48"]


def test_an_entry_that_changes_hands_is_gone_for_its_former_owner() -> None:
    index = MemoryIndex()
    index.put([("a", entry("deploy", "ann"))])
    index.put([("a", entry("deploy", "bob"))])
    found = {subject: len(index.best(terms("deploy"), 9, subject=subject)) for subject in ("", "ann", "bob")}
    newest = {subject: len(index.newest("policy", 9, subject=subject)) for subject in ("", "ann", "bob")}
    assert found == newest == {"": 0, "ann": 0, "bob": 1}


def test_others_corrections_are_not_found_and_end_none_of_ones_own() -> None:
    known = Corrections()
    for name, at, subject in (("own", 1, "ann"), ("other", 2, "bob")):
        about = Corrected("deploy.sh", "bash", 1, (), {"deploy": 1})
        card = KnowledgeIndexEntry(b"", "memory", at, (), dict(Counter(terms("no, deploy.sh"))), subject, about)
        known.put([(name, card)])
    asked = {who: PackRequest(query="deploy with deploy.sh", tenant_id="t", subject_id=who) for who in (None, *PEOPLE)}
    found = {who: [hit.name for hit in known.best(plan(request))] for who, request in asked.items()}
    assert found == {None: [], "ann": ["own"], "bob": ["other"]}


def test_a_session_that_gets_its_subject_late_is_private_from_its_start() -> None:
    index = EpisodeIndex()
    index.extend(b"".join(pack_row(document_number(0, n), f"s{n % 1000}", n, 1) for n in range(20_000)))
    index.assign([pack_assigned("s7", "ann")])
    visible = index.subjects.visible("bob")
    assert visible is not None
    assert np.flatnonzero(~visible).tolist() == list(range(7, 20_000, 1_000))
