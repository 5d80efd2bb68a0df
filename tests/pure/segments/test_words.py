"""Masks, names and intents say the same for the same thing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.segments.action_names import blamed, mutates, phrase_of, tool_of, verb_of
from hmx_pipeline.segments.intent import goal_intent, goal_messages, goal_title, intent, intent_key
from hmx_pipeline.segments.masking import mask, mask_ids, readable, telling_line, unlabelled, what_failed
from tests.support.segments import Script


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("flight HAT030 not available on date 2024-05-13", "flight HAT223 not available on date 2024-05-14"),
        ("connect to 10.0.0.1:5432 refused", "connect to 10.0.0.27:5433 refused"),
        ("No module named 'foo'", 'No module named "bar"'),
        ("cannot open /srv/a/b.txt", "cannot open ./c.txt"),
        ("GET https://a.io/x?y=1 failed", "GET http://b.io failed"),
        ("object 0xdeadbeef1 at 9f86d081884c7d65", "object 0x1 at 2c26b46b68ffc68f"),
        ("order 6f1c1f9e-2a39-4d9e-8c55-0f1d0e6f8a11 is gone", "order 11111111-2222-3333-4444-555555555555 is gone"),
        ("paid $1,203.50, owes 12", "paid $7, owes 99"),
    ],
)
def test_occurrences_of_one_message_mask_alike(one: str, other: str) -> None:
    assert mask(one) == mask(other)


def test_different_messages_stay_different() -> None:
    assert mask("order 12 not found") != mask("order 12 not available")


def test_own_argument_values_are_masked_and_short_ones_are_not() -> None:
    assert mask("no branch feature-x of it", ("feature-x", "it")) == "no branch <value> of it"


@given(st.sampled_from(Role), st.text(max_size=20) | st.text(" /.-m=python", max_size=12))
def test_every_name_gives_a_verb_with_words_for_it(role: Role, name: str) -> None:
    verb = verb_of(role, name)
    assert (tool_of(verb) != "") == (phrase_of(verb) != "") == (verb != "") == (name.strip() != "")


@given(st.text(max_size=80), st.lists(st.text(max_size=6), max_size=3).map(tuple))
def test_a_phrase_shows_no_mask(text: str, values: tuple[str, ...]) -> None:
    for masked in (mask(text, values), mask_ids(text, values)):
        phrase = readable(masked)
        assert not any(f"<{kind}>" in phrase for kind in ("num", "id", "path", "quoted", "value", "url", "uuid", "hex"))
        assert len(phrase) <= 90


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("payment amount does not add up, total price is 375, but paid 299", "payment amount does not add up"),
        ("flight HAT030 not available on date 2024-05-13", "flight not available"),
        ("rm: cannot remove 'a.py': No such file or directory", "No such file or directory"),
        ("[Errno 2] No such file or directory: 'x'", "No such file or directory"),
        ("bash: line 1: pytest: command not found", "command not found"),
        ("payment method card_77 not found", "payment method not found"),
        (
            "Found 2 matches of the text, but all is false. To replace 2 of 3",
            "Found matches of the text, but all is false",
        ),
        ("CONFLICT (content): Merge conflict in src/app.py", "CONFLICT (content): Merge conflict"),
        ("Error return value of `f` is not checked (errcheck)", "Error return value is not checked (errcheck)"),
        ("gh: Not Found (HTTP 404)", "gh: Not Found"),
        ("python3: can't open file 'a.py': [Errno 2] No such file or directory", "can't open file"),
    ],
)
def test_what_varies_leaves_a_phrase_with_what_led_to_it(text: str, phrase: str) -> None:
    assert readable(mask(text)) == phrase


def test_a_traceback_says_most_in_its_last_line() -> None:
    assert telling_line("Traceback (most recent call last):\n  File x\nValueError: bad") == "ValueError: bad"
    assert telling_line("one\ntwo FAİLED, ſo\nthree") == "two FAİLED, ſo"
    assert telling_line("one\nMıſſıng\nthree") == "Mıſſıng"
    assert telling_line("=====\nsession starts\nE: build failed here\nmore") == "E: build failed here"


@pytest.mark.parametrize(
    ("error", "output", "line"),
    [
        ("pathspec 'x' did not match", "Exit code 1\nother error", "pathspec 'x' did not match"),
        ("Auto-merging a.go", "Auto-merging a.go\nCONFLICT: both changed b.go", "CONFLICT: both changed b.go"),
        ("[lint] $ linter run ./...", "[lint] $ linter run\na.go:1:2: error is unused\n[lint] ERROR task failed", ""),
        ("# ./session", "--- FAIL: TestX (0.01s)\nFAIL\n12:00 INFO deleted failed_branches=0", ""),
        ("exit code 1", "", ""),
        ("Usage:", "Usage:\n  app [command]\nunknown command x", "unknown command x"),
        ("expected a colon", "", "expected a colon"),
        ("", "fatal: x is already used by worktree\nNo local changes", "fatal: x is already used by worktree"),
        ("", "usage: cat [-b]\ncat: illegal option -- A", "cat: illegal option -- A"),
        ("", "Il lotto non è più valido", "Il lotto non è più valido"),
        ("", "Il lotto non è più valido\nbilancia spenta", ""),
        ("E4012 우편함 용량 초과", "", "E4012 우편함 용량 초과"),
        ("422 ячейки не выделены", "", "422 ячейки не выделены"),
        ("E17 库存不足", "", "E17 库存不足"),
        ("Back-off pulling image 'x:1'", "error: timed out", "Back-off pulling image 'x:1'"),
    ],
)  # fmt: skip
def test_what_failed_is_said_by_the_error_or_by_the_output_or_by_nothing(error: str, output: str, line: str) -> None:
    assert what_failed(error, output) == line


def test_a_message_says_neither_its_class_nor_what_was_meant() -> None:
    assert unlabelled("KeyError: no such key", "KeyError") == "no such key"
    assert unlabelled("File does not exist. Did you mean a.py?") == "File does not exist"


@pytest.mark.parametrize(
    ("role", "name", "verb", "tool", "phrase", "changes"),
    [
        (Role.CALL, "get_user_details", "get_user_details", "get_user_details", "get user details", False),
        (Role.CALL, "mcp__x__createIssue", "mcp__x__createIssue", "mcp__x__createIssue", "create issue", True),
        (Role.ACTION, "cd /x && FOO=1 sudo git commit -m 'y'", "run git commit", "git", "run `git commit`", True),
        (Role.ACTION, "python3 -m pytest tests", "run pytest", "pytest", "run `pytest`", True),
        (Role.TEST, "npm run lint --fix", "run npm run lint", "npm", "run `npm run lint`", False),
        (Role.ACTION, "/usr/bin/ls -la", "run ls", "ls", "run `ls`", False),
        (Role.ACTION, "GET https://x.io/a/42?q=1", "request GET x.io/a", "GET x.io/a", "request `GET x.io/a`", False),
        (Role.ACTION, "edit", "edit", "edit", "edit files", True),
        (Role.CALL, "Grep", "Grep", "Grep", "grep", False),
        (Role.CALL, "Skill", "Skill", "Skill", "use `Skill`", True),
        (Role.CALL, "write_file", "write_file", "write_file", "write file", True),
        (Role.ACTION, "for f in a b; do wc $f; done", "run wc", "wc", "run `wc`", False),
        (Role.ACTION, "N=$(gh pr view --json n) && echo $N", "run gh pr", "gh", "run `gh pr`", True),
        (Role.ACTION, "(cd /x && A=/y \\\nB=/z \\\nbash ./go.sh all)", "run go.sh", "go.sh", "run `go.sh`", True),
        (Role.TEST, "make test:ci 2>&1", "run make test:ci", "make", "run `make test:ci`", True),
    ],
)  # fmt: skip
def test_names(role: Role, name: str, verb: str, tool: str, phrase: str, changes: bool) -> None:
    assert (verb_of(role, name), tool_of(verb), phrase_of(verb), mutates(verb)) == (verb, tool, phrase, changes)


def key_of(*texts: str) -> str:
    script = Script("s")
    for text in texts:
        script.user(text)
    goal = goal_messages(script.steps)
    return intent_key(goal_intent(goal).classes, goal)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Roll back the checkout service", "please revert payments, it was rolled back before"),
        ("I want to cancel order #W123", "Cancelling my purchase, please"),
        ("Swap my shoes and send back the hat", "return the lamp, then exchange the desk"),
        ("Change my address to 1 High St", "I'd like to update the delivery address"),
    ],
)
def test_the_same_wish_in_other_words_has_the_same_key(one: str, other: str) -> None:
    assert key_of(one) == key_of(other) != ""


@pytest.mark.parametrize(
    ("one", "other"),
    [("Deploy checkout", "Roll back checkout"), ("Change my address", "Change my payment method")],
)
def test_different_wishes_have_different_keys(one: str, other: str) -> None:
    assert key_of(one) != key_of(other)


def test_the_key_reads_two_messages_and_not_more() -> None:
    assert (
        key_of("Hi", "cancel my order") == key_of("Hi", "cancel my order", "and deploy it") == key_of("cancel my order")
    )


def test_a_reservation_is_no_wish_to_reserve() -> None:
    assert intent("Cancel my reservation").classes == ("cancel",)


def test_a_title_is_the_first_sentence_unless_it_holds_what_varies() -> None:
    script = Script("s")
    script.user("Hello there! Deploy the checkout service to staging. It is urgent.")
    assert goal_title(goal_messages(script.steps)) == "Deploy the checkout service to staging"
    other = Script("s")
    other.user("Cancel order 4711")
    assert goal_title(goal_messages(other.steps)) == ""


@given(st.text(max_size=60))
def test_a_key_is_bounded_and_versioned(text: str) -> None:
    key = key_of(text)
    assert key == "" or key.startswith("1:")
    assert len(key) < 200


@pytest.mark.parametrize(
    ("line", "error", "command"),
    [
        ("just fmt && just lint", "[lint] 3 issues", "just lint"),
        ("just fmt && just lint", "exit code 1", ""),
        ("just fmt && just lint", "fmt and lint disagree", ""),
        ("git add . && git commit -m y", "commit hook refused", "git commit -m y"),
        ("just fmt; just lint", "[fmt] cannot read a.py", "just fmt"),
        ("cd /srv && pytest -q", "1 failed", "cd /srv && pytest -q"),
        ("pytest -q | tail -3", "1 failed", "pytest -q | tail -3"),
    ],
)
def test_of_commands_in_one_line_the_one_is_blamed_that_the_error_names(line: str, error: str, command: str) -> None:
    assert blamed(line, error) == command
