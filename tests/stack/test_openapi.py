"""The service is what its OpenAPI says: generated requests, valid and not, find no 5xx and no undocumented answer.

Once where nobody needs a key, and once where all do, with keys that open what is asked for and others.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import httpx
import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hmx_pipeline.service import read_your_writes, streams
from hmx_pipeline.service.api_keys import Grant, Scope, add
from hmx_pipeline.service.app import create_app
from hmx_pipeline.service.hippocortex import learn
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.atomic_blocks import Blocks, connect
from hmx_pipeline.store.fill_progress import begun
from hmx_pipeline.store.projection import commands_of
from hmx_pipeline.store.redis_keys import Keys
from tests.support.memory import artifact, artifact_as_read, contribution_as_read, episode, episode_as_read
from tests.support.pipeline import create_topics, new_settings
from tests.support.service import serving

NOT_CALLED = {
    "/v1/vault/query": "it is not offered: always 501",
    "/v1/vault/query/{item_id}/reveal": "it is not offered: always 501",
}
ENDLESS = "/v1/hmx/stream"
"""Here whoever follows may not go on."""
KNOWN = ["e1", "a1", "c1"]
"""Ids of an event, an artifact, a contribution."""
DOCUMENT = create_app(Settings(kafka_bootstrap="127.0.0.1:1", redis_url="redis://127.0.0.1:1")).openapi()
NAMES = {f"{method.upper()} {path}": path for path, methods in DOCUMENT["paths"].items() for method in methods}


@cache
def operations() -> dict[str, Any]:
    from schemathesis import openapi  # a second, of each process that collects the tests

    found = (one.ok() for one in openapi.from_dict(DOCUMENT).get_all_operations())
    return {f"{one.method.upper()} {one.path}": one for one in found}


@cache
def checks() -> list[Any]:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    conforms = (checks.status_code_conformance, checks.content_type_conformance, checks.response_schema_conformance)
    return [not_a_server_error, *conforms]


class Asked(NamedTuple):
    service: httpx.Client
    who: list[dict[str, str]]
    """Headers that say who asks; the first may ask for everything."""


@pytest.fixture(scope="module", params=["open", "keys"])
def asked(
    request: pytest.FixtureRequest, kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Asked]:
    file, who = tmp_path_factory.mktemp("keys") / "keys", [{"X-HMX-Tenant": "acme", **bearer("hx_test_acme")}]
    if request.param == "keys":
        grants = [("acme", set(Scope)), ("acme", {Scope.READ}), ("acme", {Scope.WRITE}), ("globex", set(Scope))]
        shown = [bearer(add(file, Grant(tenant, frozenset(scopes)))) for tenant, scopes in grants]
        who = [*shown, {**shown[0], "X-HMX-Tenant": "globex"}, *who, {}]
    made = new_settings(kafka, redis_url, rate_limit=0, api_keys=str(file) if request.param == "keys" else "")
    create_topics(made, partitions=1)
    client, keys = connect(redis_url), Keys(made.topic_prefix)
    record = [episode_as_read(episode("e1"), 0), artifact_as_read(artifact("a1"), 0), contribution_as_read("c1", 0)]
    for one in record:
        Blocks(client, keys).apply(f"{one.topic}/0", None, 1, commands_of(keys, [one]))
    client.execute_command(*begun(keys, {f"{one.topic}/0": (0, 1) for one in record}))  # memory is complete
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learn, "ANSWER_S", 0.05)  # no stage runs here
        patch.setattr(read_your_writes, "WAIT_S", 0.05)
        patch.setattr(streams, "admitted", lambda asking, _: asking.url.path != ENDLESS)
        with serving(made) as service:
            yield Asked(service, who)
    client.close()


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as made:
        yield made


@pytest.mark.requirement("O-10")
@pytest.mark.parametrize("name", [name for name, path in NAMES.items() if path not in NOT_CALLED])
def test_every_answer_is_documented(asked: Asked, session: requests.Session, name: str) -> None:
    from schemathesis import GenerationMode

    operation = operations()[name]

    @settings(
        max_examples=settings().max_examples // 4,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
        | operation.as_strategy(generation_mode=GenerationMode.NEGATIVE),
        known=st.sampled_from([*KNOWN, None]),
        who=st.just(asked.who[0]) | st.sampled_from(asked.who),
    )
    def asks(case: Any, known: str | None, who: dict[str, str]) -> None:
        if known is not None:
            for parameter in case.path_parameters:
                case.path_parameters[parameter] = known
        answer = case.call(base_url=str(asked.service.base_url).rstrip("/"), headers=who, session=session)
        case.validate_response(answer, checks=checks())

    asks()


def test_what_is_not_called_is_there() -> None:
    assert operations().keys() == NAMES.keys()
    assert NOT_CALLED.keys() <= {*NAMES.values()}
