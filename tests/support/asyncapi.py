"""The topics as an AsyncAPI document, from the rows that docs/reference/topics.md has.

`python -m tests.support.documents` (or `make docs`) writes it to schemas/asyncapi.json.
"""

import json
from typing import Any

from hmx_pipeline.kafka.topic_files import load_topics
from hmx_pipeline.kafka.topic_plan import TopicSpec
from hmx_pipeline.topology import EVENTS
from tests.support.generated import ROOT, first_sentence

FILE = ROOT / "schemas" / "asyncapi.json"
_BINDING = "0.5.0"


def document() -> str:
    specs = load_topics()
    made = {
        "asyncapi": "3.0.0",
        "info": {
            "title": "HMX topics",
            "version": "1.0.0",
            "description": "Names are without HMX_TOPIC_PREFIX. Consumers need isolation.level=read_committed.",
        },
        "defaultContentType": "application/json",
        "channels": {spec.topic: _channel(spec) for spec in specs},
        "operations": {_operation(spec): _asked(spec) for spec in specs},
        "components": {"messages": {spec.topic: _message(spec) for spec in specs}},
    }
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def _channel(spec: TopicSpec) -> dict[str, Any]:
    config = spec.config
    topic = {
        "cleanup.policy": [config.cleanup_policy],
        "retention.ms": config.retention_ms,
        "retention.bytes": config.retention_bytes,
        "max.message.bytes": config.max_message_bytes,
    }
    return {
        "address": spec.topic,
        "title": first_sentence(spec.description),
        "description": spec.description.strip(),
        "messages": {"record": {"$ref": f"#/components/messages/{spec.topic}"}},
        "bindings": {
            "kafka": {
                "topic": spec.topic,
                "partitions": spec.partitions,
                "topicConfiguration": topic,
                "bindingVersion": _BINDING,
            }
        },
    }


def _operation(spec: TopicSpec) -> str:
    return ("send-" if spec.topic == EVENTS else "receive-") + spec.topic


def _asked(spec: TopicSpec) -> dict[str, Any]:
    """What others may do: they write events, and read everything else."""
    action = "send" if spec.topic == EVENTS else "receive"
    return {"action": action, "channel": {"$ref": f"#/channels/{spec.topic}"}}


def _message(spec: TopicSpec) -> dict[str, Any]:
    file = ROOT / "schemas" / "hmx-1.0" / f"{spec.value.name}.json"
    made: dict[str, Any] = {
        "name": spec.value.name,
        "contentType": "application/octet-stream" if spec.value.name == "bytes" else "application/json",
        "bindings": {"kafka": {"key": {"type": "string", "description": spec.key}, "bindingVersion": _BINDING}},
    }
    if file.is_file():
        made["payload"] = {
            "schemaFormat": "application/schema+json;version=draft-2020-12",
            "schema": {"$ref": f"hmx-1.0/{file.name}"},
        }
    if spec.example is not None and isinstance(spec.example.value, dict):
        made["examples"] = [{"headers": spec.example.headers, "payload": spec.example.value}]
    return made
