"""The token estimate is what the larger of two real tokenisers counts, or more: of an entry, and of entries joined."""

import base64
import hashlib
import json
import random
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Any
from unicodedata import category

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hmx_pipeline.contracts.options import ENTRY_MARK
from hmx_pipeline.packs import render, tokens
from hmx_pipeline.packs.assemble import assemble
from hmx_pipeline.packs.tokens import estimate
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import plan
from tests.support import vocabulary
from tests.support.memory import episode, fetched
from tests.support.texts import CODE, PROSE

BYTES = b"".join(hashlib.sha256(bytes([i])).digest() for i in range(64))
BREAKS = ("\n", "\n\n")
PROSE_BEFORE = 443
"""What the estimate with a margin, which this one replaced, said of the pieces of PROSE."""


@cache
def tokeniser(name: str) -> Any:
    return import_module("bpe_openai").get_encoding(name)  # which every process that collects tests would import


def counted(text: str) -> int:
    return max(len(tokeniser(name).encode_ordinary(text)) for name in vocabulary.ENCODINGS)


def with_break(text: str) -> int:
    """The most that it takes alone or before a line break."""
    return max(counted(text + end) for end in ("", *BREAKS))


def pieces(text: str, longest: int = 500) -> list[str]:
    """Texts of many lengths, such as entries have, cut between words where there are any."""
    dice, found = random.Random(1), []
    while text:
        length = dice.randint(longest // 8, longest)
        length = text.find(" ", length, length + longest) if " " in text[length : length + longest] else length
        found.append(text[:length])
        text = text[length:]
    return [piece for piece in found if piece.strip()]


def log() -> str:
    dice = random.Random(2)
    return "\n".join(
        f"2026-03-{dice.randint(1, 28):02d}T{dice.randint(0, 23):02d}:07:00.{dice.randint(0, 999):03d}Z "
        f"{dice.choice(['INFO', 'WARN', 'ERROR'])} [http-nio-8080-exec-{dice.randint(1, 40)}] "
        f"pod/web-{dice.randbytes(5).hex()} restarted: exit code {dice.randint(1, 255)}, lag={dice.randint(0, 99_999)}"
        for _ in range(120)
    )


def order(n: int) -> dict[str, Any]:
    return {"id": n, "order": f"#W{n * 7919}", "price": n / 7, "done": n % 2 > 0, "by": BYTES[n : n + 9].hex()}


CHINESE = "我们需要先检查命名空间是否存在，然后再应用清单文件。部署失败的原因是内存不足。客户希望在下周五之前收到退款。"
JAPANESE = "デプロイする前に名前空間が存在するかどうかを確認してください。失敗した場合はログを確認します。"
KOREAN = "배포하기 전에 네임스페이스가 있는지 확인하세요. 실패하면 로그를 확인하고 다시 시도합니다."
KINDS = {
    "prose": PROSE,
    "code": CODE,
    "JSON": "\n".join(json.dumps(order(n), indent=2) for n in range(60)),
    "JSON in one line": "".join(json.dumps(order(n)) for n in range(150)),
    "logs": log(),
    "base64": base64.b64encode(BYTES).decode(),
    "hexadecimal": BYTES.hex(),
    "Chinese": CHINESE * 20,
    "Japanese": JAPANESE * 20,
    "Korean": KOREAN * 20,
    "German": "Überprüfen Sie vor der Bereitstellung, ob der Namensraum existiert; prüfen Sie die Protokolle. " * 20,
    "Russian": "Перед развертыванием проверьте, существует ли пространство имён. " * 60,
    "emoji": "🚀🔥😀🎉🧪✅❌🙈 " * 60,
}  # fmt: skip


@pytest.mark.requirement("C-08", "Y22")
@pytest.mark.parametrize("kind", KINDS)
def test_what_texts_consist_of_is_counted_to_the_token(kind: str) -> None:
    found = pieces(KINDS[kind])
    assert len(found) > 2
    assert [(text, estimate(text)) for text in found if estimate(text) != with_break(text)] == []


def test_prose_takes_no_more_than_two_percent_above_what_it_was_estimated_at_before() -> None:
    assert sum(map(estimate, pieces(PROSE))) <= 1.02 * PROSE_BEFORE


def test_nothing_takes_nothing() -> None:
    assert estimate("") == 0


@given(st.text(min_size=1))
@example("\ud800 half of a pair")
def test_any_text_takes_something(text: str) -> None:
    assert estimate(text) > 0


@given(st.text(max_size=60), st.text(max_size=60))
def test_two_texts_take_no_less_apart_than_the_larger(left: str, right: str) -> None:
    assert estimate(left) + estimate(right) >= max(estimate(left), estimate(right))


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
WORDS = PROSE.split()
SCRIPTS = (
    "漢字仮名交じり文です",
    "Привет как дела",
    "가나다라마바사",
    "مرحبا بالعالم",
    "שלום עולם",
    "नमस्ते दुनिया",
    "สวัสดีชาวโลก",
    "ǅʰªº²½Ⅷ",
)
ADVERSARIAL: dict[str, Callable[[random.Random], str]] = {
    "random letters": lambda dice: "".join(dice.choices(LETTERS, k=dice.randint(1, 400))),
    "random letters in words": lambda dice: " ".join(
        "".join(dice.choices(LETTERS, k=dice.randint(1, 14))) for _ in range(dice.randint(1, 60))
    ),
    "Unicode tags": lambda dice: "".join(chr(0xE0000 + dice.randint(0x20, 0x7F)) for _ in range(dice.randint(1, 200))),
    "emoji joined": lambda dice: "\u200d".join(dice.choices("👩👨👧🚀🏽❤️🏳🌈", k=dice.randint(1, 60))),
    "combining marks": lambda dice: "".join(
        dice.choice("aeiouZ漢 ") + "".join(chr(dice.randint(0x300, 0x36F)) for _ in range(dice.randint(0, 12)))
        for _ in range(30)
    ),
    "CJK": lambda dice: "".join(chr(dice.randint(0x4E00, 0x9FFF)) for _ in range(dice.randint(1, 200))),
    "zero width": lambda dice: "".join(dice.choices("ab 1.\u200b\u200c\u200d\u2060\ufeff", k=dice.randint(1, 200))),
    "long digits": lambda dice: "".join(dice.choices("0123456789०१२٣²½ .,", k=dice.randint(1, 400))),
    "long blanks": lambda dice: "".join(
        dice.choice("ab.!é漢") + dice.choice(" \t\u3000\xa0\u2028\x85\x0c") * dice.randint(1, 90) for _ in range(9)
    ),
    "base64": lambda dice: base64.b64encode(dice.randbytes(dice.randint(1, 400))).decode(),
    "code": lambda dice: "".join(dice.choices(CODE.splitlines(keepends=True), k=dice.randint(1, 12))),
    "mixed scripts": lambda dice: "".join(dice.choices("".join(SCRIPTS) + LETTERS, k=dice.randint(1, 200))),
    "contractions": lambda dice: "".join(
        dice.choice(["I", "don", "WE", "é", "1", "'", "’", " "]) + dice.choice(["'s", "'LL", "'Ve", "'ſ", "''t", "'"])
        for _ in range(dice.randint(1, 60))
    ),
    "newline runs": lambda dice: "".join(
        dice.choice(["a", "1", "!", "/", " ", "é"]) + dice.choice(["\n", "\r\n", "\r", "\n /"]) * dice.randint(1, 9)
        for _ in range(20)
    ),
    "any code point": lambda dice: (
        "".join(chr(dice.randint(0, sys.maxunicode)) for _ in range(100)).encode(errors="ignore").decode()
    ),
    "ordinary sentences": lambda dice: " ".join(dice.choices(WORDS, k=dice.randint(1, 60))),
    "tokens in disorder": lambda dice: b"".join(
        dice.choices(list(tokens._vocabulary()[dice.randint(0, 1)]), k=dice.randint(1, 30))
    ).decode(errors="ignore"),
}  # fmt: skip
CASES = 20
"""Of each kind."""


@pytest.mark.requirement("C-08", "Y22")
@pytest.mark.parametrize("kind", ADVERSARIAL)
def test_no_text_made_to_mislead_takes_more_than_estimated(kind: str) -> None:
    dice = random.Random(kind)
    texts = [ADVERSARIAL[kind](dice) for _ in range(CASES)]
    assert [(text, estimate(text)) for text in texts if estimate(text) < with_break(text)] == []


@pytest.mark.requirement("C-08", "Y22")
@pytest.mark.parametrize("parted", BREAKS)
def test_entries_joined_take_no_more_than_their_sum(parted: str) -> None:
    dice = random.Random(3)
    for _ in range(CASES):
        made = (ADVERSARIAL[dice.choice(list(ADVERSARIAL))](dice) for _ in range(dice.randint(1, 20)))
        entries = [render.marked(text) for text in made]
        assert counted(parted.join(entries)) <= sum(map(estimate, entries))


@given(st.text(st.characters(codec=None), min_size=1, max_size=200))
@example("\ud800 half of a pair")
@example("\n  ")
@example("a \t\n ")
def test_any_text_takes_no_more_than_estimated(text: str) -> None:
    assert estimate(text) >= with_break(text)


@given(
    st.lists(st.sampled_from(["a", "B", " ", "  ", "\n", "'s", "é", "漢", "\u0301", "1", "!", "/", "🚀"]), max_size=30)
)
def test_what_every_version_of_unicode_classes_alike_is_counted_to_the_token(parts: list[str]) -> None:
    text = "".join(parts)
    assert estimate(text) == (with_break(text) if text else 0) or text[-1].isspace()


def test_every_character_is_cut_into_pieces_as_the_tokenisers_cut_it() -> None:
    """Of the large blocks of one kind every hundredth."""
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if category(character) == "Cs" or (code > 0x3400 and category(character) in ("Lo", "Co", "Cn") and code % 101):
            continue
        text = f"ab{character}cd {character}1{character}'s!{character}\n{character}  y"
        assert estimate(text) >= counted(text), hex(code)


def test_a_letter_that_folds_to_an_ascii_one_may_be_a_contraction() -> None:
    assert estimate("don'ſ x") >= counted("don'ſ x")


@pytest.mark.parametrize("text", ["Z" * 3_000, "漢" * 2_000, "=" * 5_000, "\U000e0041" * 900, "q" * 511 + "!"])
def test_a_piece_too_long_to_merge_takes_its_bytes_at_most(text: str) -> None:
    assert counted(text) <= estimate(text) <= len(text.encode()) + len(BREAKS[-1])


def test_the_vocabulary_is_that_of_the_tokenisers() -> None:
    for held, name in zip(tokens._vocabulary(), vocabulary.ENCODINGS, strict=True):
        assert held == vocabulary.ranks(name)
        assert all(bytes([byte]) in held for byte in range(256))


@given(st.lists(st.binary(min_size=1, max_size=8), unique=True))
def test_what_is_packed_is_unpacked_again(held: list[bytes]) -> None:
    assert tokens._unpacked(tokens.vocabulary_bytes(held) + b"rest") == (held, b"rest")


@given(st.text(" aT1.,é漢\n\t\u3000", max_size=60))
@example("a  b")
@example("a\nb\nd   c")
@example("x \n \n y")
@example("a 1 2 .5")
def test_a_text_taken_run_by_run_counts_as_one_taken_whole(text: str) -> None:
    whole = tokens._counts(text)
    assert sum(map(tokens._counts, tokens._RUNS.split(text))) == whole
    runs = text.split(" ")
    if runs == text.split():
        assert tokens._counts(runs[0]) + sum(tokens._counts(f" {run}") for run in runs[1:]) == whole


@pytest.mark.parametrize("name", vocabulary.ENCODINGS)
def test_no_piece_reaches_into_the_entry_behind_a_line_break(name: str) -> None:
    dice, encode = random.Random(4), tokeniser(name).encode_ordinary
    for before, after in pairwise([*ADVERSARIAL.values(), *ADVERSARIAL.values()]):
        left, right = before(dice) + "\n", ENTRY_MARK + after(dice)
        apart = [*encode(left), *encode(right)]
        assert apart == encode(left + right)


@pytest.mark.requirement("C-08", "Y22")
@pytest.mark.parametrize("kind", ADVERSARIAL)
def test_a_pack_of_texts_made_to_mislead_is_within_its_budget_as_it_is_served(kind: str) -> None:
    dice = random.Random(kind)
    memory = fetched([episode(f"e{i}", f"deploy {i} {ADVERSARIAL[kind](dice)}", index=i) for i in range(40)])
    for budget in (60, 250, 1_000):
        request = PackRequest(query="deploy", tenant_id="acme", token_budget=budget)
        pack = orjson.loads(assemble(request, plan(request), memory).to_json())
        contents = [entry["content"] for entry in pack["entries"]]
        assert contents
        used = pack["token_budget"]["used"]
        assert max(counted(parted.join(contents)) for parted in BREAKS) <= used <= budget
        assert sum(map(counted, contents)) <= used
