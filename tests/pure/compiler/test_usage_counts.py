"""conduct: what was done in a segment is counted, all of it, however much it is; nothing is said about it."""

import pytest

from hmx_pipeline.compiler.extract import contributions
from hmx_pipeline.compiler.usage_counts import KEYS, REST
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.limits import KB, SEGMENT_EVENTS
from tests.support.segments import Script


def conduct(made: Script) -> Contribution:
    (only,) = (c for c in contributions(made.segment()) if c.pattern_type == "conduct")
    assert only.pattern_key in KEYS
    return only


@pytest.mark.requirement("F-02")
def test_calls_errors_and_decisions_are_counted() -> None:
    made = Script("s")
    made.user("Deploy it")
    made.tool("build image")
    made.tool("apply", ok=False, error="no such namespace", kind="NotFound")
    made.tool("apply")
    made.add(Role.CALL, name="apply", call_id="open")
    made.add(Role.ACTION, name="git commit -m done", ok=True)
    made.decide("How shall we roll it out?", "Rolling")
    made.decide("How shall we roll it out?", "the rolling")
    made.add(Role.ERROR, text="an error without a class")
    body = conduct(made).body
    assert body["tools"] == {"apply": [3, 1, 1], "build_image": [1, 1, 0], "run git commit": [1, 0, 1]}
    assert body["errors"] == {REST: 1, "NotFound": 1}
    assert [sum(options.values()) for options in body["decisions"].values()] == [2]


def test_a_result_whose_call_is_elsewhere_is_no_call() -> None:
    made = Script("s")
    made.add(Role.RESULT, name="apply", ok=True, call_id="before")
    made.tool("apply")
    assert conduct(made).body["tools"] == {"apply": [1, 1, 0]}


def test_a_segment_in_which_nothing_is_done_says_nothing() -> None:
    made = Script("s")
    made.user("Deploy it")
    assert "conduct" not in {c.pattern_type for c in contributions(made.segment())}


def test_the_sums_stay_and_it_stays_small_however_many_names_there_are() -> None:
    made = Script("s")
    for n in range(SEGMENT_EVENTS):
        made.add(Role.ACTION, name=f"act_{n}_{'漢' * 200}", ok=True)
        made.add(Role.ERROR, name=f"Error{n}{'漢' * 200}")
        made.decide("How shall we roll it out?", f"way {n} {'漢' * 200}")
    said = conduct(made)
    for name in ("tools", "errors"):
        counts = [c[0] if isinstance(c, list) else c for c in said.body[name].values()]
        assert sum(counts) == SEGMENT_EVENTS
        assert said.body[name][REST]
    (options,) = said.body["decisions"].values()
    assert sum(options.values()) == SEGMENT_EVENTS
    assert len(said.to_json()) < 64 * KB
