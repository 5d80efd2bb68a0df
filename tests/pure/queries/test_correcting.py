"""A correction is in the log only with the marks by which erasures find it, as far as memory can know them."""

from collections.abc import Sequence
from typing import Any

import pytest

from hmx_pipeline.contracts.ruling import Ruling, RulingVerb
from hmx_pipeline.queries import knowledge_query
from hmx_pipeline.queries.knowledge_query import RulingRequest, UnknownSourcesError, rule
from hmx_pipeline.retrieval.memory_completeness import Completeness
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.fetch import Store
from tests.support.talk import knowledge_of, said

WHOLE, PARTLY = Completeness(), Completeness(begun=False)


class Known(Store):
    """A memory that has lost its contributions, or has none yet."""

    def __init__(self, completeness: Completeness) -> None:
        self._completeness = completeness

    def get_contributions(self, tenant_id: str, contribution_ids: Sequence[str]) -> list[dict[str, Any] | None]:
        return [None] * len(contribution_ids)

    def completeness(self, tenant_id: str | None = None) -> Completeness:
        return self._completeness


@pytest.fixture
def appended(monkeypatch: pytest.MonkeyPatch) -> list[Ruling]:
    made: list[Ruling] = []
    monkeypatch.setattr(knowledge_query, "append_ruling", lambda _, ruling: made.append(ruling))
    return made


def test_while_memory_is_filled_nothing_is_corrected_whose_sources_it_does_not_know(appended: list[Ruling]) -> None:
    (record,) = knowledge_of(said("s1", "Our warehouse is Snowflake."))
    value = RulingRequest(value="BigQuery")
    with pytest.raises(UnknownSourcesError, match="ask again"):
        rule(Settings(), Known(PARTLY), record, RulingVerb.CORRECT, value)
    assert appended == []
    rule(Settings(), Known(PARTLY), record, RulingVerb.RETRACT, RulingRequest())
    rule(Settings(), Known(WHOLE), record, RulingVerb.CORRECT, value)
    assert [one.verb for one in appended] == [RulingVerb.RETRACT, RulingVerb.CORRECT]
