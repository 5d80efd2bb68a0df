"""Reading what the clients ask: names in camel case, and every mistake named by its path.

Enters: a body and the model it should be. Leaves: the model. Fails with ProblemError.
"""

from typing import Any, Final, TypeVar

from pydantic import ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from pipeline.contracts.limits import KB
from pipeline.contracts.model import Model
from pipeline.service.body import inlined
from pipeline.service.problems import invalid

REQUEST_BYTES: Final = 256 * KB


class Words(Model):
    """What the clients may add later is not looked at."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore")


Asked = TypeVar("Asked", bound=Words)


def parsed(model: type[Asked], body: bytes) -> Asked:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise invalid(error) from None


def described(schema: dict[str, Any]) -> dict[str, Any]:
    """What OpenAPI says of a body that the route reads itself."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def schema_of(model: type[Words]) -> dict[str, Any]:
    """OpenAPI has another place for definitions."""
    schema = model.model_json_schema()
    whole: dict[str, Any] = inlined(schema, schema.pop("$defs", {}))
    return whole
