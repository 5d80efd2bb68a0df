"""An episode is its event, projected without loss (HMX-E §10)."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.contracts.episode import Episode, Origin, Release, episode_record, event_fields
from pipeline.intake.decode import Accepted, decode
from tests.support.events import OPTIONAL, encoded, full_event

ORIGIN = Origin(partition=3, offset=14, log_time=1_773_457_200_000)
RELEASE = Release(index=2, run=0)
METADATA = st.dictionaries(
    st.sampled_from(["agent_id", "tenant_id", "hmx", "sequence", "x"]), st.integers() | st.just({"hmx": 1}), max_size=3
).filter(lambda value: all(not isinstance(item, int) or -(2**63) <= item < 2**63 for item in value.values()))


@pytest.mark.requirement("E-32", "V-03", "X02", "X07")
@given(st.sets(st.sampled_from(OPTIONAL)), METADATA, st.booleans())
def test_event_to_episode_to_event_is_the_same_event(absent: set[str], metadata: dict[str, Any], later: bool) -> None:
    sent = {name: value for name, value in full_event(metadata=metadata).items() if name not in absent}
    if later:
        sent |= {"hmx_version": "HMX-1.3", "mood": [1], "extensions": {"x": 1}}
    outcome = decode(encoded(sent))
    assert isinstance(outcome, Accepted)
    record = orjson.loads(orjson.dumps(episode_record(outcome.fields, ORIGIN, RELEASE)))
    assert event_fields(record) == sent


@pytest.mark.requirement("E-32")
def test_an_episode_has_the_fields_of_the_mapping() -> None:
    sent = full_event()
    episode = Episode.model_validate(episode_record(sent, ORIGIN, RELEASE))
    direct = {
        "id": "event_id", "event_type": "event_type", "session_id": "session_id", "timestamp": "timestamp",
        "payload": "content", "salience_score": "salience", "source": "source", "provenance_ref": "provenance_ref",
    }  # fmt: skip
    assert {name: getattr(episode, name) for name in direct} == {name: sent[field] for name, field in direct.items()}
    assert (episode.tenant_id, episode.agent_id, episode.sequence) == ("tenant", "agent", 0)
    assert (episode.origin, episode.release) == (ORIGIN, RELEASE)
