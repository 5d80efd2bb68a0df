"""The generated schemas against those that the specifications print: the same documents are valid, but for a list.

`printed/` holds HMX-E §5, HMX-A §9 and the example documents of all pages, as printed.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

from hmx_pipeline.contracts.artifact import STANDARD_TYPES
from hmx_pipeline.contracts.schemas import documents
from hmx_pipeline.contracts.timestamps import parse_instant
from hmx_pipeline.intake.decode import Accepted, decode
from tests.support.bad_input import BOUNDED
from tests.support.inprocess import artifacts_of
from tests.support.sessions import interleaved, session

PRINTED = Path(__file__).parent / "printed"
EXAMPLES: dict[str, list[dict[str, Any]]] = json.loads((PRINTED / "examples.json").read_text(encoding="utf-8"))
FORMATS = FormatChecker(formats=())
FORMATS.checks("date-time")(lambda value: not isinstance(value, str) or parse_instant(value) is not None)
Document = dict[str, Any]


def validator(schema: Document) -> Draft202012Validator:
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema, format_checker=FORMATS)


NAMES = ("event.json", "artifact.json")
OURS = {name: validator(documents()[name]) for name in documents()}
THEIRS = {name: validator(json.loads((PRINTED / name).read_text(encoding="utf-8"))) for name in NAMES}


def longer(field: str, bound: int) -> Callable[[Document], bool]:
    return lambda document: isinstance(document.get(field), list) and len(document[field]) > bound


def above(field: str, bound: int) -> Callable[[Document], bool]:
    return lambda document: isinstance(document.get(field), int | float) and document[field] > bound


def custom(document: Document) -> bool:
    return str(document.get("artifact_type")).startswith("x-")


def odd_scope(document: Document) -> bool:
    """Of HMX-A §6's five fields one has another type than printed there."""
    return not OURS_SCOPE.is_valid(document.get("validity_scope", {}))


SCOPE = documents()["artifact.json"]
OURS_SCOPE = validator({"$ref": "#/$defs/ValidityScope", "$defs": SCOPE["$defs"]})

# Every way in which ours differ from the printed ones: what it is, which documents are refused that §5 and §9 admit.
STRICTER: dict[str, dict[str, Callable[[Document], bool]]] = {
    "event.json": {
        "embeddings are not empty (HMX-E §6.6)": lambda document: document.get("embeddings") == [],
        "at most 4,096 dimensions (HMX-E §11)": longer("embeddings", 4096),
        "at most 64 tags (HMX-E §11)": longer("tags", 64),
        "a sequence has 64 bits": above("sequence", 2**64 - 1),
        "a time to live has 64 bits": above("ttl_seconds", 2**64 - 1),
        "an id and the type have at most 512 bytes": lambda document: any(
            len(str(document.get(name, ""))) > 512 for name in BOUNDED
        ),
    },
    "artifact.json": {
        "at most 10,000 sources (HMX-A §12)": longer("source_events", 10_000),
        "at most 64 tags (HMX-A §12)": longer("tags", 64),
        "validity_scope's fields have their types (HMX-A §6)": odd_scope,
    },
}
# ... and which are admitted that the printed ones refuse.
LOOSER: dict[str, dict[str, Callable[[Document], bool]]] = {
    "event.json": {},
    "artifact.json": {"custom artifact types (HMX-A §3)": custom},
}
WITNESSES: dict[str, dict[str, Any]] = {
    "embeddings are not empty (HMX-E §6.6)": {"embeddings": []},
    "at most 4,096 dimensions (HMX-E §11)": {"embeddings": [0.5] * 4097},
    "at most 64 tags (HMX-E §11)": {"tags": ["t"] * 65},
    "a sequence has 64 bits": {"sequence": 2**64},
    "a time to live has 64 bits": {"ttl_seconds": 2**64},
    "an id and the type have at most 512 bytes": {"session_id": "s" * 513},
    "at most 10,000 sources (HMX-A §12)": {"source_events": ["e"] * 10_001},
    "at most 64 tags (HMX-A §12)": {"tags": ["t"] * 65},
    "validity_scope's fields have their types (HMX-A §6)": {"validity_scope": {"agent_ids": "a"}},
    "custom artifact types (HMX-A §3)": {"artifact_type": "x-acme-runbook"},
}

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2) | st.sampled_from([2**53 + 1, 2**64 - 1, 2**64, 10_000]),
    st.floats(-1.5, 1.5) | st.sampled_from([1.0, 0.0, 1e300]),
    st.text(max_size=3),
    st.sampled_from(
        [
            "HMX-1.0", "HMX-12.34", "HMX-1", "hmx-1.0", "2026-03-14T03:00:00Z", "2026-03-14T03:00:00",
            "2026-02-30T00:00:00Z", "2016-12-31T23:59:60Z", "a" * 64, "A" * 64, "draft", "archived",
            "x-acme-runbook", "x-acme", "runbook", *STANDARD_TYPES,
        ]
    ),
    st.lists(st.text(max_size=2) | st.integers(-9, 9) | st.floats(-1, 1), max_size=3),
    st.sampled_from([["t"] * 64, ["t"] * 65, [0.5] * 4096, [0.5] * 4097]),
    st.dictionaries(
        st.sampled_from(["tenant_ids", "agent_ids", "tags", "time_range", "conditions", "other"]),
        st.lists(st.text(max_size=2), max_size=2)
        | st.text(max_size=2)
        | st.fixed_dictionaries({"start": st.sampled_from(["2026-03-14T03:00:00Z", "yesterday", 3])}),
        max_size=2,
    ),
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, name: str) -> Document:
    """An example of the specification with fields dropped, replaced and added: about half of them stay valid."""
    document = dict(draw(st.sampled_from(EXAMPLES[name])))
    known = sorted(documents()[name]["properties"])
    for field in draw(st.lists(st.sampled_from(known), max_size=1)):
        document.pop(field, None)
    return document | draw(st.dictionaries(st.sampled_from([*known, "other"]), VALUES, max_size=2))


@pytest.mark.requirement("E-01", "E-23", "A-01", "X05")
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=3 * settings().max_examples)
@given(data=st.data())
def test_both_admit_and_refuse_the_same_documents_but_for_the_list(name: str, data: st.DataObject) -> None:
    document = data.draw(mutated(name))
    stricter = any(holds(document) for holds in STRICTER[name].values())
    looser = any(holds(document) for holds in LOOSER[name].values())
    ours, theirs = OURS[name].is_valid(document), THEIRS[name].is_valid(document)
    assert ours == theirs or (theirs and stricter) or (ours and looser)


@pytest.mark.requirement("X05")
@pytest.mark.parametrize(
    ("name", "difference", "looser"),
    [(name, what, False) for name in NAMES for what in STRICTER[name]]
    + [(name, what, True) for name in NAMES for what in LOOSER[name]],
)
def test_each_difference_on_the_list_is_one(name: str, difference: str, looser: bool) -> None:
    document = EXAMPLES[name][0] | WITNESSES[difference]
    assert (LOOSER if looser else STRICTER)[name][difference](document)
    assert (OURS[name].is_valid(document), THEIRS[name].is_valid(document)) == (looser, not looser)


@pytest.mark.requirement("O-02")
@pytest.mark.parametrize(("name", "number"), [(name, n) for name, some in EXAMPLES.items() for n in range(len(some))])
def test_the_specifications_examples_are_valid(name: str, number: int) -> None:
    OURS[name].validate(EXAMPLES[name][number])


@pytest.mark.requirement("O-02")
@pytest.mark.parametrize("name", NAMES)
def test_the_ids_are_those_printed(name: str) -> None:
    for field in ("$schema", "$id", "title"):
        assert documents()[name][field] == THEIRS[name].schema[field]


@pytest.mark.requirement("O-02", "E-18")
@pytest.mark.parametrize("number", range(len(EXAMPLES["event.json"])))
def test_intake_accepts_the_examples_of_events(number: int) -> None:
    sent = EXAMPLES["event.json"][number]
    outcome = decode(json.dumps(sent).encode())
    assert isinstance(outcome, Accepted)
    assert outcome.fields == sent


@pytest.mark.requirement("A-01", "A-27")
def test_every_artifact_that_is_published_keeps_both() -> None:
    published = artifacts_of(interleaved([session(number) for number in range(20)], 7))
    assert {artifact["status"] for artifact in published} >= {"draft", "active"}
    for artifact in published:
        if artifact["artifact_type"] in STANDARD_TYPES:
            THEIRS["artifact.json"].validate(artifact)
        OURS["artifact.json"].validate(artifact)
        assert artifact["content_hash"] == hashlib.sha256(rfc8785.dumps(artifact["content"])).hexdigest()
