"""The token estimate against counts taken from cl100k_base and o200k_base; the larger is listed."""

# ruff: noqa: E501  each text stands as it was counted

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.packs.tokens import estimate

BYTES = b"".join(hashlib.sha256(bytes([i])).digest() for i in range(8))
COUNTED = {
    "prose": (
        "We agreed yesterday that the migration runs online, because the table is larger than a gigabyte and nobody wants another outage at the weekend.",
        27,
    ),
    "names": ("Jolene and Aarav met Priyanka Chattopadhyay near Llanfairpwllgwyngyll to discuss pottery.", 30),
    "python": (
        "def retry(call, attempts=3):\n    for attempt in range(attempts):\n        try:\n            return call()\n        except TimeoutError as error:\n            last = error\n    raise last\n",
        40,
    ),
    "go": (
        'func newCmd() *cobra.Command {\n\treturn &cobra.Command{Use: "clean", RunE: func(cmd *cobra.Command, args []string) error {\n\t\treturn nil\n\t}}\n}\n',
        40,
    ),
    "json": (
        '{"order_id":"#W2378156","items":[{"item_id":"1151293680","price":272.33,"options":{"switch type":"linear","size":"full size"}}],"status":"delivered"}',
        45,
    ),
    "indented": (
        '{\n  "name": "web",\n  "replicas": 3,\n  "labels": {\n    "app": "web",\n    "tier": "front"\n  }\n}',
        38,
    ),
    "log": (
        "2026-03-14T03:00:07.123Z ERROR [kube-apiserver] pod/web-7d9c5b6f4-x2x9q OOMKilled: limit 512Mi, used 536870912 bytes (exit 137)",
        60,
    ),
    "trace": (
        "Traceback (most recent call last):\n  File \"/srv/app/main.py\", line 42, in <module>\n    main()\nKeyError: 'DATABASE_URL'",
        34,
    ),
    "command": (
        "kubectl -n staging rollout status deploy/web --timeout=120s && curl -fsS https://staging.example.com/healthz | jq .",
        31,
    ),
    "uuid": ("019e5a3b-7c4d-7000-8000-000000000001 019cea49-5380-85d3-9796-c19fb44ebb44", 42),
    "table": (
        "| name | status | age |\n|------|--------|-----|\n| web-1 | Running | 12d |\n| web-2 | CrashLoopBackOff | 3m |",
        39,
    ),
    "german": (
        "Überprüfen Sie vor der Bereitstellung, ob der Namensraum existiert; schlägt dies fehl, prüfen Sie die Protokolle.",
        36,
    ),
    "chinese": ("我们需要先检查命名空间是否存在，然后再应用清单文件。部署失败的原因是内存不足。", 35),
    "japanese": ("デプロイする前に名前空間が存在するかどうかを確認してください。失敗した場合はログを確認します。", 41),
    "korean": ("배포하기 전에 네임스페이스가 있는지 확인하세요. 실패하면 로그를 확인하고 다시 시도합니다.", 37),
    "russian": ("Перед развертыванием проверьте, существует ли пространство имён.", 25),
    "emoji": ("🚀🔥😀🎉🧪✅❌🙈", 21),
    "base64": (base64.b64encode(BYTES).decode(), 244),
    "hex": (BYTES.hex(), 286),
}


@pytest.mark.requirement("C-08")
@pytest.mark.parametrize("kind", COUNTED)
def test_never_below_the_real_count_nor_far_above(kind: str) -> None:
    text, counted = COUNTED[kind]
    assert counted <= estimate(text) <= counted * 2 + 3


def test_nothing_takes_nothing() -> None:
    assert estimate("") == 0


@given(st.text(min_size=1))
def test_any_text_takes_something(text: str) -> None:
    assert estimate(text) > 0


@given(st.text(max_size=60), st.text(max_size=60))
def test_two_texts_take_no_less_apart_than_the_larger(left: str, right: str) -> None:
    assert estimate(left) + estimate(right) >= max(estimate(left), estimate(right))
