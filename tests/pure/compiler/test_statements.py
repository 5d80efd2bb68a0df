"""Standing rules in anybody's words: which sentences of a message are told as rules, and what is kept of them."""

import re

import pytest

from hmx_pipeline.compiler.knowledge.claims import Claim, claims
from hmx_pipeline.compiler.knowledge.classifier import scores
from hmx_pipeline.compiler.knowledge.language import TONGUES
from hmx_pipeline.compiler.knowledge.plain_statements import spoken
from hmx_pipeline.contracts.knowledge import Memory
from tests.pure.compiler.test_facts import of_turns, texts
from tests.support.talk import holding


@pytest.mark.parametrize("code", TONGUES)
def test_every_form_of_a_language_is_an_expression(code: str) -> None:
    tongue = TONGUES[code]
    for words in (*tongue.says.texts.values(), *(words for _, one in tongue.updates for words in one.words)):
        assert re.compile(words, re.IGNORECASE)


def rules(text: str) -> list[Claim]:
    return [claim for claim in claims(text, "user") if claim.memory is Memory.POLICY]


MISSED = (
    ("Don't deploy on Fridays", "Do not deploy on Fridays", True),
    ("Use uv instead of pip", "Use uv instead of pip", False),
    ("PRs must have two reviewers", "PRs must have two reviewers", False),
    ("I'd rather you didn't force-push", "I would rather you did not force-push", True),
    ("Before you push, run the linter", "Before you push, run the linter", False),
    ("Under no circumstances share customer data", "Under no circumstances share customer data", True),
)


@pytest.mark.parametrize(("text", "kept", "denies"), MISSED)
def test_a_rule_is_known_by_what_it_asks_and_not_by_always(text: str, kept: str, denies: bool) -> None:
    (rule,) = rules(text)
    assert (rule.text, rule.denies) == (kept, denies)


@pytest.mark.parametrize(("text", "kept", "denies"), MISSED)
def test_a_rule_is_known_between_other_sentences(text: str, kept: str, denies: bool) -> None:
    (rule,) = rules(f"Thanks, that looks good. {text}. The build took nine minutes.")
    assert (rule.text, rule.denies) == (kept, denies)


@pytest.mark.parametrize(
    ("text", "denies"),
    [
        ("Kein Deployment am Freitag.", True),
        ("Nutze immer pnpm statt npm.", False),
        ("No subas nunca contraseñas al repositorio.", True),
        ("Usa siempre tabulaciones en vez de espacios.", False),
        ("Ne poussez jamais directement sur main.", True),
        ("Chaque modification doit être accompagnée d'un test.", False),
        ("Nunca faça deploy às sextas-feiras.", True),
        ("Toda alteração deve ter testes.", False),
        ("レビューなしでマージしないでください。", True),
        ("コミットメッセージは必ず英語で書いてください。", False),
        ("不要在周五部署。", True),
        ("所有提交信息必须使用英文。", False),
    ],
)
def test_rules_of_other_languages_are_kept_as_they_were_said(text: str, denies: bool) -> None:
    (rule,) = rules(text)
    assert (rule.text, rule.denies) == (text.rstrip(".。"), denies)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("let's never deploy on Fridays", "Never deploy on Fridays"),
        ("Let's always write the changelog in English", "Always write the changelog in English"),
        ("let’s use tabs everywhere from now on", "Always use tabs everywhere"),
        ("From now on let's not use mocks", "Never use mocks"),
        ("From now on, let's use mocks", "Always use mocks"),
    ],
)
def test_a_rule_that_is_proposed_reads_like_any_other(text: str, kept: str) -> None:
    (rule,) = rules(text)
    assert rule.text == kept


def test_sentences_of_japanese_and_chinese_end_at_their_own_marks() -> None:
    text = "ありがとうございます。コミットメッセージは英語で書いてください。テストは通りましたか？"
    assert list(spoken(text)) == ["ありがとうございます。", "コミットメッセージは英語で書いてください。"]
    assert [rule.text for rule in rules(text)] == ["コミットメッセージは英語で書いてください"]


@pytest.mark.parametrize(
    "text",
    [
        "Refactor stock: shelves and bins share most of their code",
        "Add a test for it", "Please fix the failing test", "Run the tests again", "Deploy the release to staging",
        "Can you rename this to foo?", "Füge bitte einen Test hinzu", "¿Puedes arreglar el error?",
        "Ajoute un test pour cette fonction", "このブランチのプルリクエストを作ってください。", "帮我写一个测试",
        "Perhaps all PRs must have two reviewers.", "He said that PRs must have two reviewers.",
        "> PRs must have two reviewers", 'Their guide says "PRs must have two reviewers".', "Can't wait to see you!",
        "Must PRs have two reviewers?", "Vielleicht sollte jeder PR zwei Reviewer haben.",
    ],
)  # fmt: skip
def test_a_request_a_question_a_quotation_and_a_guess_are_no_rules(text: str) -> None:
    assert rules(text) == []


def test_in_a_list_that_is_declared_to_hold_rules_an_order_counts_by_itself() -> None:
    items = "- Write short functions\n- Separate domain logic from IO\n- Mock the database"
    said = {rule.text for rule in rules(f"Our conventions:\n{items}")}
    assert said == {"Write short functions", "Separate domain logic from IO", "Mock the database"}
    assert {rule.text for rule in rules(f"Next steps:\n{items}")} < said


def test_code_in_a_rule_is_kept_whole() -> None:
    (rule,) = rules("Never run `terraform apply -auto-approve -target=module.db` without asking.")
    assert "terraform apply -auto-approve -target=module.db" in rule.text


def test_a_rule_is_turned_round_by_its_denial_in_other_languages_too() -> None:
    records = of_turns(("Nutze immer npm.",), ("Nutze niemals npm.",))
    assert texts(holding(records), "policy") == ["Nutze niemals npm"]


def test_a_state_that_has_ended_is_no_rule() -> None:
    assert rules("We don't use Redis any more.") == []


def test_what_is_read_of_a_sentence_is_bounded() -> None:
    assert scores("Never push to main. " * 100) == scores("Never push to main. " * 20)


def test_a_rule_scores_more_as_a_rule_and_a_fact_more_as_a_fact() -> None:
    rule, fact = scores("All pull requests must be reviewed by two people."), scores("Tests are located in `tests/`.")
    assert rule.rule > fact.rule
    assert fact.fact > rule.fact


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Ask Dr. Weber first. Then book.", ["Ask Dr. Weber first.", "Then book."]),
        ("Frau Dr. Maier leitet z.B. das Labor. Gut.", ["Frau Dr. Maier leitet z.B. das Labor.", "Gut."]),
        ("Keep approx. 400 samples.", ["Keep approx. 400 samples."]),
        ("We ship to St.", ["We ship to St."]),
    ],
)
def test_a_period_after_an_abbreviation_ends_no_sentence(text: str, sentences: list[str]) -> None:
    assert spoken(text) == sentences
