"""The OpenAPI document serves generators of clients: operation ids are unique names, paths name their parameters, and
each body has an example that its schema and the route's own models take."""

import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from hmx_pipeline.service.api_description import EXAMPLES
from hmx_pipeline.service.app import create_app
from hmx_pipeline.settings import Settings

Operations = dict[str, tuple[str, Any]]
WITHOUT = {"import_fingerprint"}
"""What it takes is what `post_fingerprint` gives."""


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    upstream = {"mem0": 1, "openai_upstream": "http://127.0.0.1:1/v1"}
    return create_app(Settings(kafka_bootstrap="127.0.0.1:1", redis_url="redis://127.0.0.1:1", **upstream)).openapi()


@pytest.fixture(scope="module")
def operations(document: dict[str, Any]) -> Operations:
    return {
        said["operationId"]: (path, said) for path, methods in document["paths"].items() for said in methods.values()
    }


def test_operation_ids_are_unique_names(document: dict[str, Any], operations: Operations) -> None:
    assert len(operations) == sum(len(methods) for methods in document["paths"].values())
    assert all(re.fullmatch("[a-z][a-z_0-9]*", name) for name in operations)


def test_a_path_names_its_parameters(operations: Operations) -> None:
    for name, (path, said) in operations.items():
        named = {one["name"] for one in said.get("parameters", ()) if one["in"] == "path"}
        assert named == set(re.findall(r"{(\w+)}", path)), name


def test_every_body_has_an_example(operations: Operations) -> None:
    assert {name for name, (_, said) in operations.items() if "requestBody" in said} == {*EXAMPLES, *WITHOUT}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_valid(document: dict[str, Any], operations: Operations, name: str) -> None:
    body = operations[name][1]["requestBody"]["content"]["application/json"]
    assert body["example"] == EXAMPLES[name]
    schema = body["schema"] | {"components": document["components"]}
    Draft202012Validator(schema).validate(body["example"])


def test_names_of_schemas_do_not_collide_in_a_generated_client(document: dict[str, Any]) -> None:
    names = [re.sub(r"\W", "", name).casefold() for name in document["components"]["schemas"]]
    assert len(set(names)) == len(names)
