"""Request parsing of the Hippocortex API: camel case names, and errors that name the JSON path.

Enters: a body and its model. Leaves: the model. Raises ProblemError.
"""

from typing import Any, Final, TypeVar

from pydantic import ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.limits import KB
from hmx_pipeline.service.body import inlined
from hmx_pipeline.service.problems import invalid

REQUEST_BYTES: Final = 256 * KB


class ClientModel(Model):
    """Base model; unknown fields are ignored, since newer clients may send more."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore")


Asked = TypeVar("Asked", bound=ClientModel)


def parsed(model: type[Asked], body: bytes) -> Asked:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise invalid(error) from None


def schema_of(model: type[ClientModel]) -> dict[str, Any]:
    """Returns the schema with definitions inlined, as OpenAPI has no place for them."""
    schema = model.model_json_schema()
    whole: dict[str, Any] = inlined(schema, schema.pop("$defs", {}))
    return whole
