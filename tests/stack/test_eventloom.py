"""An Eventloom log that went through Kafka and both stages is written again byte for byte."""

from pathlib import Path

from hmx_pipeline.cli.wait import wait_for_all
from tests.pure.doors.test_eventloom import chain
from tests.support.own_command import hmx
from tests.support.pipeline import new_settings, running


def test_a_log_is_imported_and_exported_to_the_same_bytes(kafka: str, redis_url: str, tmp_path: Path) -> None:
    payloads = [
        {"title": "Ship ünder 1.0", "cost": 1.0, "many": 2**70, "parts": [1e16, -0.0]},
        {"key": "region", "to": "eu"},
    ]
    log = tmp_path / "agent-1.jsonl"
    log.write_bytes(b"".join(line + b"\n" for line in chain(payloads * 3)))
    settings, told = new_settings(kafka, redis_url), tmp_path / "again.jsonl"
    with running(settings, tmp_path, "worker", "materialiser", partitions=2):
        answer = hmx(settings, "import", "eventloom", str(log), "--tenant", "acme")
        assert answer.exit_code == 0, answer.output
        wait_for_all(settings)
        asked = ("export", "eventloom", "--tenant", "acme", "--session")
        answer = hmx(settings, *asked, "agent-1", "--output", str(told))
        assert answer.exit_code == 0, answer.output
        assert told.read_bytes() == log.read_bytes()
        assert hmx(settings, *asked, "agent-2").exit_code == 1
        answer = hmx(settings, "verify")
        assert answer.exit_code == 0, answer.output
