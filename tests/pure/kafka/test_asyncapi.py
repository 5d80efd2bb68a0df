"""The topics' AsyncAPI document: it is valid by the specification's own schema, and says what the topic files say.

The schema in tests/fixtures is that of the package @asyncapi/specs (Apache License 2.0).
"""

import json
import lzma
from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft202012Validator

from hmx_pipeline.kafka.topic_files import load_topics
from tests.support.asyncapi import FILE, document
from tests.support.generated import ROOT

DOCUMENT: dict[str, Any] = json.loads(document())


def test_it_is_valid() -> None:
    schema = json.loads(lzma.decompress((ROOT / "tests" / "fixtures" / "asyncapi-3.0.0.json.xz").read_bytes()))
    assert [error.message for error in Draft7Validator(schema).iter_errors(DOCUMENT)] == []
    wrong = DOCUMENT | {"operations": {"x": {"action": "shout"}}}
    assert not Draft7Validator(schema).is_valid(wrong)


def test_the_file_is_as_the_topic_files_say() -> None:
    assert FILE.read_text(encoding="utf-8") == document(), "run `make docs`"


def test_every_topic_is_a_channel_with_one_operation() -> None:
    topics = [spec.topic for spec in load_topics()]
    assert list(DOCUMENT["channels"]) == topics
    assert [one["channel"]["$ref"] for one in DOCUMENT["operations"].values()] == [f"#/channels/{t}" for t in topics]


@pytest.mark.parametrize("topic", list(DOCUMENT["components"]["messages"]))
def test_an_example_is_valid_by_the_schema_that_is_named(topic: str) -> None:
    message = DOCUMENT["components"]["messages"][topic]
    if "payload" in message:
        schema = json.loads((FILE.parent / message["payload"]["schema"]["$ref"]).read_text(encoding="utf-8"))
        for example in message["examples"]:
            Draft202012Validator(schema).validate(example["payload"])
