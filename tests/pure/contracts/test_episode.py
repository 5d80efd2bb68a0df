"""An episode is its event, projected without loss (HMX-E §10)."""

from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.envelope import read_envelope
from hmx_pipeline.contracts.episode import Episode, Origin, Release, as_sent, event_fields, write_episode
from hmx_pipeline.intake.decode import Accepted, decode
from hmx_pipeline.intake.secret_names import bears_secret
from hmx_pipeline.topology import EPISODES
from tests.support.events import OPTIONAL, encoded, full_event
from tests.support.inprocess import run, sessions_fold, tick_record
from tests.support.records import event as record
from tests.support.records import log

ORIGIN = Origin(partition=3, offset=14, log_time=1_773_457_200_000)
RELEASE = Release(index=2, run=0)
METADATA = st.dictionaries(
    st.sampled_from(["agent_id", "tenant_id", "hmx", "sequence", "x"]), st.integers() | st.just({"hmx": 1}), max_size=3
).filter(lambda value: all(not isinstance(item, int) or -(2**63) <= item < 2**63 for item in value.values()))


@pytest.mark.requirement("E-17", "E-32", "V-03", "X02", "X07")
@given(st.sets(st.sampled_from(OPTIONAL)), METADATA, st.booleans())
def test_event_to_episode_to_event_is_the_same_event(absent: set[str], metadata: dict[str, Any], later: bool) -> None:
    sent = {name: value for name, value in full_event(metadata=metadata).items() if name not in absent}
    if later:
        sent |= {"hmx_version": "HMX-1.3", "mood": [1], "extensions": {"x": 1}}
    outcome = decode(encoded(sent))
    assert isinstance(outcome, Accepted)
    record = orjson.loads(write_episode(outcome.event, ORIGIN, RELEASE))
    assert event_fields(record) == sent


@pytest.mark.requirement("E-32")
def test_an_episode_has_the_fields_of_the_mapping() -> None:
    sent = full_event()
    episode = Episode.model_validate_json(write_episode(read_envelope(encoded(sent)), ORIGIN, RELEASE))
    direct = {
        "id": "event_id", "event_type": "event_type", "session_id": "session_id", "timestamp": "timestamp",
        "payload": "content", "salience_score": "salience", "source": "source", "provenance_ref": "provenance_ref",
    }  # fmt: skip
    assert {name: getattr(episode, name) for name in direct} == {name: sent[field] for name, field in direct.items()}
    assert (episode.tenant_id, episode.agent_id, episode.sequence) == ("tenant", "agent", 0)
    assert (episode.origin, episode.release) == (ORIGIN, RELEASE)


TEXT = st.text(st.characters(codec="utf-8"), max_size=4).filter(lambda text: not bears_secret(text))
ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.sampled_from([1, 1.0, -0.0, 2**53 + 1, 2**64 - 1, -(2**63), 1e16, 1e300])
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.requirement("E-19", "E-22", "Y02")
@given(st.sampled_from(["message", "foo", "decision.made"]), st.dictionaries(TEXT, ANY, max_size=5), st.booleans())
def test_content_comes_out_as_it_came_in_byte_for_byte(name: str, content: dict[str, Any], waits: bool) -> None:
    """Integers of 64 bits, 1.0 beside 1, the order of keys: also where the event waited, in a restored state."""
    sent = record("s", 5 if waits else 0, event_type=name, content=content, metadata=content)
    result = run(sessions_fold, [*log([(0, sent)]), tick_record(6_000, offset=1)], cut=lambda _: 1, restores=True)
    (output,) = result.on(EPISODES)
    assert bytes(msgspec.json.decode(output.value, type=dict[str, msgspec.Raw])["payload"]) == orjson.dumps(content)
    assert orjson.dumps(event_fields(result.episodes[0])["metadata"]) == orjson.dumps(content)


@pytest.mark.requirement("E-32", "X07", "X02", "V-03")
@given(
    st.dictionaries(st.sampled_from(["hmx", "shadowed", "origin", "notes", "x"]), ANY),
    st.dictionaries(st.sampled_from(["mood", "extensions", "origin", "id", "hmx", "payload"]), ANY),
)
def test_no_name_that_a_producer_uses_meets_one_of_ours(metadata: dict[str, Any], later: dict[str, Any]) -> None:
    sent = full_event(hmx_version="HMX-1.7", metadata=metadata) | later
    outcome = decode(encoded(sent))
    assert isinstance(outcome, Accepted)
    notes, redacted = ("content.x: missing",), ("$.content.y",)
    traced = orjson.loads(write_episode(outcome.event, ORIGIN, RELEASE, notes, redacted))
    assert event_fields(traced) == sent
    assert as_sent(outcome.fields) == sent
    made = Episode.model_validate(traced)
    assert (made.origin, made.release) == (ORIGIN, RELEASE)
