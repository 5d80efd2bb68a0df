"""What a query is understood as."""

import pytest

from hmx_pipeline.contracts.pack import QueryClassification
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import RetrievalPlan, plan


def planned(query: str) -> RetrievalPlan:
    return plan(PackRequest(query=query, tenant_id="acme"))


def understood(query: str) -> QueryClassification:
    return planned(query).classification


@pytest.mark.requirement("C-15")
@pytest.mark.parametrize(
    ("query", "intent"),
    [
        ("When did Caroline go to the support group?", "temporal"),
        ("What broke the build last Tuesday?", "temporal"),
        ("Why does the deployment fail with a TimeoutError?", "failure"),
        ("Which database should we choose?", "decision"),
        ("Deploy the staging environment", "procedural"),
        ("How do I rotate the keys", "procedural"),
        ("I want to return two items of my order", "procedural"),
        ("Where does Melanie live?", "factual"),
    ],
)
def test_the_first_rule_that_holds_names_the_intent(query: str, intent: str) -> None:
    assert understood(query).intent == intent


def test_words_that_name_a_time_are_told_from_what_is_asked() -> None:
    found = planned("what failed since last week")
    assert set(found.terms) - found.timing == {"fail"}
    assert not planned("what fails at the last step").timing


def test_keywords_and_entities_are_read_off() -> None:
    found = understood("What did Caroline say about `web-1` and kube-system last March?")
    assert found.keywords == ["caroline", "say", "web", "1", "kube", "system", "last", "march"]
    assert found.entities == ["web-1", "Caroline", "kube-system", "March"]


def test_terms_are_distinct_stems_whatever_the_order() -> None:
    assert planned("deploying staging deploys").terms == planned("staging deploy").terms == ("deploy", "stage")
    assert planned("what is it").terms == ()


def test_a_long_query_keeps_its_longest_words() -> None:
    many = planned(" ".join(f"w{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(500)) + " extraordinarily")
    assert len(many.terms) == 64
    assert "extraordinarili" in many.terms


def test_an_id_asks_for_what_takes_ids_that_look_like_it() -> None:
    """Also of what takes such ids and does not show how they begin."""
    assert planned("lost dev-4711").shapes == ("=dev-0000", "=xxx-0000")
    assert len(planned(" ".join(f"a{'b' * i}-1" for i in range(99))).shapes) == 64
