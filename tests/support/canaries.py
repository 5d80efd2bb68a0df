"""Sessions with a word in every place from which artifacts take words."""

from typing import Any

from tests.support.records import START_MS, event

_BEGINNING = START_MS - 86_400_000


def session(number: int, subject: str, word: str) -> list[dict[str, Any]]:
    """A task that fails once and recovers, with a decision and a state; `word` stands in its wish, arguments, error,
    question, options, state and tags."""
    load = {"command": f"dw load report --region {word}"}
    said: list[tuple[str, dict[str, Any]]] = [
        ("message", {"role": "user", "text": f"Load the monthly report for {word} please"}),
        ("decision", {"question": f"Which loader for {word}", "decision": f"bulk {word}", "options": ["bulk", word]}),
        ("command_exec", {"command": f"dw login --as {word}", "exit_code": 0, "stdout": f"hello {word}"}),
        (
            "command_exec",
            {"command": f"dw load report --region {word}", "exit_code": 1, "stderr": f"LockError: {word}"},
        ),
        ("error", {"error_type": "LockError", "message": f"the {word} table is locked"}),
        ("command_exec", {"command": f"dw unlock {word}", "exit_code": 0, "stdout": "ok"}),
        ("command_exec", {**load, "exit_code": 0, "stdout": "ok"}),
        ("state_change", {"new_state": f"loaded {word}", "old_state": "open"}),
        ("feedback", {"signal": "positive", "comment": f"thanks from {word}"}),
    ]
    return [
        event(
            f"s{number}", n, at=_BEGINNING + number * 600_000 + 1_000 * n, event_type=kind, content=content,
            metadata={"user_id": subject} if subject else {}, tags=["report", word],
        )
        for n, (kind, content) in enumerate(said)
    ]  # fmt: skip
