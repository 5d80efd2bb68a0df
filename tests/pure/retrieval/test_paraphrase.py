"""Wishes in other words are found by the pieces of words that they share."""

from hmx_pipeline.retrieval.paraphrase import nearness

MOVE, PASS = ["Quero transferir <aluno> para direito"], ["A turma <turma> vai transitar para letras"]


def test_another_form_of_the_same_word_is_nearer_than_another_word() -> None:
    move, passes = nearness("Pediram-me a transferência de al34", [MOVE, PASS])
    assert move > passes > 0


def test_what_shares_little_is_near_to_nothing() -> None:
    assert max(nearness("Etwas ganz anderes", [MOVE, PASS])) < 0.1


def test_no_words_and_no_goals_are_near_to_nothing() -> None:
    assert nearness("", [MOVE]) == [0.0]
    assert nearness("transferir", [[]]) == [0.0]
    assert nearness("transferir", []) == []


def test_a_wish_is_as_near_however_much_is_said_besides() -> None:
    alone = nearness("Quero transferir um aluno para direito", [MOVE, PASS])
    said = "Bom dia! Quero transferir um aluno para direito. O meu nome é Rita Prates, moro em Faro com dois gatos."
    assert nearness(said, [MOVE, PASS]) == alone


def test_a_sentence_of_one_or_two_words_is_no_wish() -> None:
    near, _ = nearness("Quero transferir? A aluna Rita mudou ontem de casa.", [MOVE, PASS])
    assert near < 0.5
