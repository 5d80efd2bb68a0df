"""What an action is: command lines taken apart, without knowing any program."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.segments.commands import Simple, call, first_end, quoted, simple_commands, within, wordlike


def one(line: str, switches: frozenset[str] = frozenset()) -> Simple:
    (found,) = simple_commands(line, switches)
    return found


def test_a_command_is_its_program_its_words_and_its_options_with_how_they_were_laid_out() -> None:
    found = one("dw load t_1 --region north -v --warehouse=bulk")
    assert (found.program, found.words) == ("dw", ("load", "t_1"))
    assert found.options == (("--region", "north"), ("--warehouse", "bulk"), ("-v", None))
    assert found.layout == ("0", "1", "--region", "-v", "--warehouse")


def test_an_option_known_to_be_a_switch_takes_no_value() -> None:
    assert one("kube apply --wait file").options == (("--wait", "file"),)
    assert one("kube apply --wait file", frozenset({"kube --wait"})).words == ("apply", "file")


@pytest.mark.parametrize(
    ("line", "programs"),
    [
        ("cd x && make test | tail -3; echo done", ["cd", "make", "tail", "echo"]),
        ("FOO=1 BAR='a b' run it", ["run"]),
        ("FOO=1", []),
        ("for f in a b; do rm $f; done", ["rm"]),
        ("if true; then ls; fi", ["true", "ls"]),
        ("# only a comment", []),
        ("ls # and why\npwd", ["ls", "pwd"]),
        ("python - <<'EOF'\nprint(1); import os\nEOF", ["python"]),
        ("sleep 1 & wait", ["sleep", "wait"]),
        ("a \\\n b", ["a"]),
        ("", []),
    ],
)
def test_the_programs_of_a_line(line: str, programs: list[str]) -> None:
    assert [found.program for found in simple_commands(line)] == programs


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('say \'it is\' "a \\"b\\"" c\\ d', ("it is", 'a "b"', "c d")),
        ("say 'never closed", ("never closed",)),
        ("say '' x#y", ("", "x#y")),
        ("say a > out 2>&1 < in", ("a",)),
        ("say -3 -", ("-3", "-")),
    ],
)
def test_the_words_of_a_command(line: str, words: tuple[str, ...]) -> None:
    assert one(line).words == words


def test_a_call_has_its_arguments_as_options() -> None:
    assert call("touch", [("table", "t"), ("layer", "x")]) == Simple(
        "touch", (), (("table", "t"), ("layer", "x")), True, ("table", "layer")
    )


@given(st.text())
def test_any_text_can_be_taken_apart(line: str) -> None:
    for found in simple_commands(line):
        assert len(found.words) + len(found.options) <= 24
        assert {key for key in found.layout if not key.isdigit()} <= {key for key, _ in found.options}


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])), max_size=4))
def test_what_is_quoted_is_read_as_it_was(words: list[str]) -> None:
    plain = [word for word in words if word and not word.startswith("-") and "<" not in word and ">" not in word]
    line = " ".join(["run", *map(quoted, plain)])
    assert one(line).words == tuple(plain)


def test_names_of_subcommands_are_letters_and_not_long() -> None:
    assert all(map(wordlike, ["load", "drop-locks", "über", "a:b"]))
    assert not any(map(wordlike, ["t_1", "a/b", "x" * 25, "", "-v", "2"]))


def test_a_value_stands_in_a_text_as_a_whole_word() -> None:
    assert within("t_1", "load t_1, please")
    assert not within("t_1", "load t_12")
    assert within("港", "東京港へ")
    assert not within("", "x")


JOINED = st.text("ab-_ 1ß港", max_size=12) | st.lists(st.sampled_from(["aa", "b1", "a", " "]), max_size=40).map("".join)


@given(st.text("ab-_ 1港", min_size=1, max_size=3), JOINED)
def test_a_value_is_found_where_it_first_stands_apart(value: str, text: str) -> None:
    def joins(c: str) -> bool:
        return c.isalnum() and c != "港"

    def apart(at: int) -> bool:
        before, after = text[:at][-1:], text[at + len(value) :][:1]
        return not (joins(before) and joins(value[0])) and not (joins(after) and joins(value[-1]))

    starts = [at for at in range(len(text)) if text.startswith(value, at)]
    assert first_end(value, text) == next((at + len(value) for at in starts if apart(at)), 0)
