"""The token estimate against what two real tokenisers count."""

import base64
import hashlib
import json
import random
from typing import Any

import bpe_openai
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.packs import tokens
from pipeline.packs.tokens import estimate
from tests.support import vocabulary
from tests.support.texts import CODE, PROSE

TOKENISERS = [bpe_openai.get_encoding(name) for name in vocabulary.ENCODINGS]
BYTES = b"".join(hashlib.sha256(bytes([i])).digest() for i in range(64))
ABOVE = 1.12
"""Of what a kind of text really takes at most."""


def counted(text: str) -> int:
    return max(len(tokeniser.encode(text)) for tokeniser in TOKENISERS)


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


@pytest.mark.requirement("C-08")
@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_text_takes_more_than_estimated_nor_far_less(kind: str) -> None:
    real = [(counted(text), estimate(text)) for text in pieces(KINDS[kind])]
    assert len(real) > 2
    assert sum(count for count, _ in real) <= sum(guess for _, guess in real) <= ABOVE * sum(c for c, _ in real)
    assert [(count, guess) for count, guess in real if count > guess] == []


def test_nothing_takes_nothing() -> None:
    assert estimate("") == 0


@given(st.text(min_size=1))
@example("\ud800 half of a pair")
def test_any_text_takes_something(text: str) -> None:
    assert estimate(text) > 0


@given(st.text(max_size=60), st.text(max_size=60))
def test_two_texts_take_no_less_apart_than_the_larger(left: str, right: str) -> None:
    assert estimate(left) + estimate(right) >= max(estimate(left), estimate(right))


def test_the_vocabulary_is_what_both_tokenisers_know() -> None:
    held = tokens._vocabulary()
    assert held == vocabulary.shared()
    assert all(bytes([byte]) in held for byte in range(256))


@given(st.sets(st.binary(min_size=1, max_size=8)))
def test_what_is_packed_is_unpacked_again(held: set[bytes]) -> None:
    assert set(tokens.unpacked(tokens.packed(held))) == held


@given(st.text(" aT1.,é漢\n\t\u3000", max_size=60))
@example("a  b")
@example("a\nb\nd   c")
@example("x \n \n y")
@example("a 1 2 .5")
def test_a_text_taken_run_by_run_counts_as_one_taken_whole(text: str) -> None:
    whole = tokens._pieces(text)
    assert estimate(text) == whole - (-whole // tokens._MARGIN)
