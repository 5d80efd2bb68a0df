"""A number out of range is named by its path, in queries and in bodies, as whoever asks has written it."""

import orjson
import pytest

from hmx_pipeline.service.api_keys import USUAL, Grant
from hmx_pipeline.service.hippocortex.capture import _completed, said_path
from hmx_pipeline.service.memory import _pack_request
from hmx_pipeline.service.problems import ProblemError
from tests.pure.service.test_ids import asked

TENANT = {"X-HMX-Tenant": "acme", "Authorization": "Bearer hx_test_acme"}
PACK, FINGERPRINTS = "/v1/hmx/context-packs", "/v1/hmx/fingerprints"
CASES = {
    ("GET", "/v1/hmx/artifacts?limit=0", ""): "$.limit",
    ("GET", f"/v1/hmx/artifacts?limit={'9' * 5_000}", ""): "$.limit",
    ("GET", "/v1/artifacts?limit=1e400", ""): "$.limit",
    ("GET", "/v1/hmx/tables/sessions?limit=18446744073709551616", ""): "$.limit",
    ("POST", PACK, '{"query": "q", "token_budget": 1e400}'): "$.token_budget",
    ("POST", PACK, '{"query": "q", "token_budget": 18446744073709551616}'): "$.token_budget",
    ("POST", PACK, '{"query": "q", "query_vector": [1, 2, -1e400]}'): "$.query_vector[2]",
    ("POST", FINGERPRINTS, '{"agent_id": 1e400}'): "$.agent_id",
    ("POST", "/v1/synthesize", '{"query": "q", "options": {"maxTokens": 1e400}}'): "$.options.maxTokens",
    ("POST", "/v1/learn", '{"options": {"minPatternStrength": 1e400}}'): "$.options.minPatternStrength",
}
CAPTURE = {"type": "message", "sessionId": "s", "payload": {"n": 1}, "metadata": {"m": [1]}, "idempotencyKey": "k"}
AT = {
    '"message"': "$.type",
    '"s"': "$.sessionId",
    '{"n":1}': "$.payload",
    "1}": "$.payload.n",
    "1]": "$.metadata.m[0]",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[1][:40]} {case[2]}")
def test_a_number_out_of_range_in_a_request(case: tuple[str, str, str]) -> None:
    method, path, body = case
    answer = asked(method, path, orjson.Fragment(body.encode()) if body else None, "", TENANT)
    assert answer.status_code == 422
    said = answer.json()
    assert said.get("path", (said.get("error", {}).get("details") or [{}])[0].get("path")) == CASES[case]


@pytest.mark.parametrize("place", AT)
@pytest.mark.parametrize("number", ["1e400", "123456789012345678901234567890"])
def test_a_number_out_of_range_in_a_capture(place: str, number: str) -> None:
    ends = place[-1] if place[0] == "1" else ""
    sent = orjson.dumps(CAPTURE).decode().replace(place, number + ends, 1).encode()
    refused = _completed(sent, Grant("acme", USUAL)).refused
    assert refused is not None
    assert said_path(refused.path) == AT[place]


def test_what_is_no_json_at_all_has_no_path() -> None:
    for body in (b"{", b'{"query": NaN}', b"\xff", b'{"token_budget": 1e400'):
        with pytest.raises(ProblemError) as raised:
            _pack_request(body, "acme")
        assert raised.value.members["path"] == "$"
