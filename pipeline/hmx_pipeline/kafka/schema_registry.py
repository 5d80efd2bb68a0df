"""The JSON Schemas of topics' values in a registry that speaks Confluent's API: Confluent's own, Karapace, Apicurio.

Enters: topic files, a registry's address. Leaves: a `SubjectPlan` per topic with a schema, changed subjects. Raises
RegistryError; its message is for the operator.
"""

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import quote

from hmx_pipeline.contracts.schemas import documents
from hmx_pipeline.kafka.topic_plan import TopicSpec

ANSWER_S: Final = 10.0
RULES: Final = {"backward": "BACKWARD_TRANSITIVE", "none": "NONE"}
"""Of a topic file's word. Transitive, since a topic still holds records of every version before."""
DRAFT: Final = "http://json-schema.org/draft-07/schema#"
"""Not all registries can compare schemas of a later draft, and ours use nothing that is newer."""
_ABSENT: Final = range(40401, 40500)
"""Codes of what is not there: a subject, a version, a schema, a level of its own."""


class RegistryError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class SubjectPlan:
    subject: str
    schema: str
    latest: int | None
    version: int | None
    """Under which this very schema is registered."""
    level: str | None
    """Of compatibility, if the subject has one of its own."""
    rule: str
    clash: str = ""
    """Where the schema differs from an incompatible one."""

    @property
    def pending(self) -> bool:
        return self.version is None or self.level != self.rule


class SchemaRegistry:
    def __init__(self, url: str, login: str = "", ca: str = "") -> None:
        self.url, self._login = url.rstrip("/"), login
        try:
            context = ssl.create_default_context(cafile=ca or None)
        except OSError as error:
            raise RegistryError(f"HMX_SCHEMA_REGISTRY_CA={ca}: {error}: name a file of PEM certificates") from None
        in_the_clear = login and not url.startswith("https://")  # to this machine, so no proxy may read it
        handlers = [urllib.request.ProxyHandler({})] if in_the_clear else []
        self._open = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), *handlers).open

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Returns None for what the registry does not have."""
        try:
            request = urllib.request.Request(self.url + path, method=method)  # noqa: S310  checked: http
        except ValueError as error:
            raise RegistryError(f"HMX_SCHEMA_REGISTRY_URL={self.url} is no address: {error}") from None
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        if self._login:  # not to the host of a redirect
            basic = base64.b64encode(self._login.encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {basic}")
        try:
            with self._open(request, timeout=ANSWER_S) as answer:
                status, said = answer.status, _object(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                status, said = error.code, _object(error.read())
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            mend = "HMX_SCHEMA_REGISTRY_CA" if isinstance(reason, ssl.SSLError) else "HMX_SCHEMA_REGISTRY_URL"
            raise RegistryError(f"no schema registry answers at {self.url} ({reason}): check {mend}") from None
        if said is not None and status < 300:
            return said
        if said is not None and said.get("error_code") in _ABSENT:
            return None
        raise RegistryError(f"{self.url} answers {status}: {_explained(status, said or {})}")


def _explained(status: int, said: Mapping[str, Any]) -> str:
    if status == 401:
        return (
            "it asks for another login: set HMX_SCHEMA_REGISTRY_LOGIN=user:password, or HMX_SCHEMA_REGISTRY_LOGIN_FILE"
        )
    if status == 403:
        return "the login may not do this: grant HMX_SCHEMA_REGISTRY_LOGIN's user to read and write HMX's subjects"
    if "error_code" in said:
        return str(said.get("message"))
    return ("that is no schema registry: set HMX_SCHEMA_REGISTRY_URL to the address of its Confluent API"
            " (Apicurio: …/apis/ccompat/v7)")  # fmt: skip


def plan_subjects(registry: SchemaRegistry, specs: Sequence[TopicSpec]) -> list[SubjectPlan]:
    """Of the topics whose values have a published schema."""
    published = documents()
    wanted = [(spec, f"{spec.value.name}.json") for spec in specs]
    return [_planned(registry, spec, published[name]) for spec, name in wanted if name in published]


def _planned(registry: SchemaRegistry, spec: TopicSpec, document: Mapping[str, Any]) -> SubjectPlan:
    subject, schema = f"{spec.topic}-value", json.dumps({**document, "$schema": DRAFT}, ensure_ascii=False)
    rule, at = RULES[spec.value.compatibility], quote(f"{spec.topic}-value", safe="")
    latest = registry.ask("GET", f"/subjects/{at}/versions/latest")
    if latest is None:
        return SubjectPlan(subject, schema, None, None, None, rule)
    same = registry.ask("POST", f"/subjects/{at}", _body(schema)) or {}
    level = registry.ask("GET", f"/config/{at}") or {}
    clash = ""
    if not same:
        checked = registry.ask("POST", f"/compatibility/subjects/{at}/versions/latest", _body(schema))
        if checked and not checked["is_compatible"]:
            clash = ", ".join(_differences(_object(latest["schema"]), json.loads(schema)))
    return SubjectPlan(
        subject, schema, latest["version"], same.get("version"), level.get("compatibilityLevel"), rule, clash
    )


def register_subject(registry: SchemaRegistry, wanted: SubjectPlan) -> None:
    """The rule comes first, so that it judges the schema; but a subject without schemas may have none."""
    at = quote(wanted.subject, safe="")
    rule = ("PUT", f"/config/{at}", {"compatibility": wanted.rule})
    version = ("POST", f"/subjects/{at}/versions", _body(wanted.schema))
    steps = [rule] * (wanted.level != wanted.rule) + [version] * (wanted.version is None)
    for step in steps if wanted.latest else reversed(steps):
        registry.ask(*step)


def _body(schema: str) -> dict[str, str]:
    return {"schemaType": "JSON", "schema": schema}


def _object(text: bytes | str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _differences(old: Any, new: Any, at: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            yield from _differences(old.get(name), new.get(name), f"{at}/{name}")
    elif old != new:
        both = isinstance(old, list) and isinstance(new, list)
        yield at + (f" ({', '.join(sorted({*map(str, old)} ^ {*map(str, new)}))})" if both else "")
