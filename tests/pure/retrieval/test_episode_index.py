"""The index of episodes against a plain reading of what it promises, however it came and was remembered."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.retrieval.episode_index import AFTER, BEFORE, WHOLE, EpisodeIndex, QueryTerm, Term
from hmx_pipeline.retrieval.postings import (
    FEW,
    K1,
    B,
    document_number,
    pack_number,
    pack_postings,
    pack_row,
    typical,
)

WORDS = ("red", "green", "blue", "plum", "teal", "year")


Asking = Iterable[str] | Mapping[str, int]
"""Words; where only a share of their weight counts, with it."""


class Turn(NamedTuple):
    number: int
    session: str
    words: tuple[str, ...]
    at: int | None = None
    """Its number, unless given."""


class Memory:
    """What is appended, and what a process has read of it."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.rows = b""
        self.postings: defaultdict[str, bytes] = defaultdict(bytes)
        self.index = EpisodeIndex()
        self.terms: defaultdict[str, Term] = defaultdict(Term)

    def append(self, turns: list[Turn]) -> None:
        for turn in turns:
            self.turns.append(turn)
            self.rows += pack_row(
                turn.number, turn.session, turn.number if turn.at is None else turn.at, len(turn.words)
            )
            for word, n in Counter(turn.words).items():
                self.postings[word] += pack_postings(turn.number, [n])[0]

    def best(self, words: Asking, limit: int) -> list[tuple[int, int]]:
        self.index.extend(self.rows[self.index.read :])
        for word in words:
            self.index.refresh(self.terms[word], self.postings[word][self.terms[word].read :])
        return self.index.best([QueryTerm(self.terms[word], share) for word, share in whole(words).items()], limit)


def whole(words: Asking) -> Mapping[str, int]:
    """What counts of each."""
    return words if isinstance(words, Mapping) else dict.fromkeys(words, WHOLE)


def plainly(turns: list[Turn], words: Asking, limit: int) -> list[tuple[int, int]]:
    """Document by document, as the definitions say."""
    sessions: defaultdict[str, list[Turn]] = defaultdict(list)
    for turn in turns:
        sessions[turn.session].append(turn)
    place = {turn.number: at for held in sessions.values() for at, turn in enumerate(held)}

    def around(turn: Turn) -> list[tuple[int, Turn]]:
        held, at = sessions[turn.session], place[turn.number]
        before = [(w, held[at - i]) for i, w in enumerate(BEFORE, 1) if at - i >= 0]
        return before + [(w, held[at + i]) for i, w in enumerate(AFTER, 1) if at + i < len(held)]

    def length(turn: Turn) -> int:
        held, at = sessions[turn.session], place[turn.number]
        return 10 * len(turn.words) + sum(w * len(held[at - i].words) for i, w in enumerate(BEFORE, 1) if at - i >= 0)

    average = typical(sum(map(length, turns)), 10 * len(turns))
    scores: Counter[int] = Counter()
    for word, share in whole(words).items():
        held_by = sum(word in turn.words for turn in turns)
        documents = max(FEW, len(turns))
        idf = max(1, round(64 * math.log1p((documents - held_by + 0.5) / (held_by + 0.5))))
        for turn in turns if held_by else []:
            n = (10 * turn.words.count(word) + sum(w * other.words.count(word) for w, other in around(turn))) / 10
            flat = K1 * (1 - B + B / average * (length(turn) / 10))
            scores[turn.number] += int(np.rint(4096 * (K1 + 1) * n / (n + flat))) * (idf * share // WHOLE)
    found = [(number, score) for number, score in scores.items() if score]
    return sorted(found, key=lambda row: (-row[1], row[0]))[:limit]


@st.composite
def appended(draw: st.DrawFn) -> list[list[Turn]]:
    """Blocks, each of one partition; a session lives in one."""
    offsets: Counter[int] = Counter()
    blocks = []
    for partition in draw(st.lists(st.integers(0, 2), max_size=8)):
        block = []
        for session in draw(st.lists(st.integers(0, 2), min_size=1, max_size=12)):
            words = tuple(draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5)))
            offsets[partition] += draw(st.integers(1, 3))
            number = document_number(partition, offsets[partition])
            block.append(Turn(number, f"{partition}-{session}", words))
        blocks.append(block)
    return blocks


@given(
    told=st.lists(
        st.lists(st.tuples(st.integers(0, 2), st.sampled_from(WORDS)), min_size=1, max_size=4), min_size=1, max_size=8
    ),
    limit=st.integers(1, 5),
    data=st.data(),
)
def test_in_whatever_order_sessions_came_and_wherever_they_stand_the_same_turns_are_found(
    told: list[list[tuple[int, str]]], limit: int, data: st.DataObject
) -> None:
    """Among turns of equal scores, too: those of another interleaving, or of a generation with more partitions."""

    def found() -> list[tuple[str, int, int]]:
        memory, offsets, names = Memory(), Counter[int](), {}
        homes = data.draw(st.lists(st.integers(0, 2), min_size=len(told), max_size=len(told)))
        left = [list(enumerate(turns)) for turns in told]
        for number in data.draw(st.permutations([n for n, turns in enumerate(told) for _ in turns])):
            place, (at, word) = left[number].pop(0)
            offsets[homes[number]] += 1
            document = document_number(homes[number], offsets[homes[number]])
            names[document] = (f"s{number}", place)
            memory.append([Turn(document, f"s{number}", (word,), at)])
        return [(*names[document], score) for document, score in memory.best(WORDS[:3], limit)]

    assert found() == found()


def test_several_common_words_are_a_question_and_one_alone_is_not() -> None:
    memory = Memory()
    memory.append([Turn(document_number(0, at), f"s{at}", ("red", "green")) for at in range(4 * FEW)])
    (_, score), *_ = memory.best(("red", "green"), 1)
    held = [memory.terms[word] for word in ("red", "green")]
    assert 0.7 < score / memory.index.whole(held) < 1.5
    assert memory.best(("red",), 1)[0][1] / memory.index.whole(held[:1]) < 0.1


queries = st.dictionaries(st.sampled_from([*WORDS, "unheard"]), st.integers(0, WHOLE), min_size=1, max_size=4)


@given(appended(), st.lists(queries, min_size=1, max_size=4), st.integers(1, 40))
def test_what_is_remembered_answers_as_what_is_read_anew_and_as_the_definitions(
    blocks: list[list[Turn]], asked: list[dict[str, int]], limit: int
) -> None:
    memory = Memory()
    for at, block in enumerate(blocks):
        memory.append(block)
        words = asked[at % len(asked)]
        fresh = Memory()
        fresh.append(memory.turns)
        assert memory.best(words, limit) == fresh.best(words, limit) == plainly(memory.turns, words, limit)


@given(appended(), queries)
def test_the_order_in_which_partitions_were_written_does_not_matter(
    blocks: list[list[Turn]], words: dict[str, int]
) -> None:
    one, other = Memory(), Memory()
    for block in blocks:
        one.append(block)
    for block in sorted(blocks, key=lambda b: b[0].number >> 48, reverse=True):
        other.append(block)
    assert one.best(words, 20) == other.best(words, 20)


def many(sessions: int, turns: int) -> list[Turn]:
    """Words of very different frequency, in sessions that take turns."""
    made = []
    for n in range(sessions * turns):
        words = [f"w{k}" for k in range(1, 12) if (n * 2_654_435_761 >> 7) % (3**k // 2 + 1) == 0]
        made.append(Turn(document_number(n % 3, n), f"{n % 3}-{n % sessions}", ("year", *words)))
    return made


def test_what_is_not_looked_at_could_not_have_been_among_the_best() -> None:
    memory, turns = Memory(), many(300, 60)
    memory.append(turns[:-40])
    asked: list[Asking] = [["year", "w2", "w7"], ["w1", "w9"], ["year"], ["w3", "w4", "w5", "w6", "w8"]]
    asked.append({"w1": WHOLE, "w3": WHOLE, "w7": WHOLE // 3, "w9": WHOLE // 4})
    for words in asked:
        memory.best(words, 20)
    memory.append(turns[-40:])
    for words in asked:
        assert memory.best(words, 20) == plainly(turns, words, 20)


def test_only_documents_that_are_asked_for_are_found() -> None:
    memory, turns = Memory(), many(30, 20)
    memory.append(turns)
    memory.best(["w1"], 10)
    tagged = b"".join(pack_number(turn.number) for turn in turns[::7])
    latest = max(turn.number for turn in turns[::14])
    found = memory.index.best([QueryTerm(memory.terms["w1"])], 1000, memory.index.among([tagged], until=latest))
    wanted = {turn.number for turn in turns[::7] if turn.number <= latest}
    every = dict(memory.best(["w1"], 1000))
    assert found == sorted(((n, every[n]) for n in wanted if n in every), key=lambda row: (-row[1], row[0]))
    assert memory.index.among() is None
    assert not memory.index.best([QueryTerm(memory.terms["w1"])], 10, memory.index.among(until=-1))


@given(st.integers(0, 300), st.integers(0, 9))
def test_the_best_among_some_are_the_best_of_all_that_are_among_them(count: int, seed: int) -> None:
    dice = np.random.default_rng(seed)
    memory = Memory()
    said = [tuple(dice.choice(WORDS, dice.integers(1, 6)).tolist()) for _ in range(300)]
    memory.append([Turn(document_number(0, n), f"s{n % 7}", words) for n, words in enumerate(said)])
    every = memory.best(WORDS, len(said))
    among = np.zeros(len(said), np.bool_)
    among[dice.permutation(len(said))[:count]] = True
    terms = [QueryTerm(memory.terms[word]) for word in WORDS]
    assert memory.index.best(terms, 7, among) == [pair for pair in every if among[pair[0]]][:7]
