"""`make fuzz`: coverage-guided inputs to intake. Every one ends in a value, none in an exception.

What is accepted goes on through everything that is done with an event without state: its step, its episode and back,
its canonical form. The seeds are the table of bad input, events at their limits, and the specification's examples.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["hmx_pipeline"]):
    import orjson

    from hmx_pipeline.contracts.canonical import canonical_json
    from hmx_pipeline.contracts.episode import Origin, Release, as_sent, event_fields, write_episode
    from hmx_pipeline.contracts.rejections import Rejection
    from hmx_pipeline.intake.decode import Accepted, decode
    from hmx_pipeline.intake.steps import step_of

from tests.support.bad_input import AT_LIMIT, BAD
from tests.support.events import OPTIONAL, REQUIRED, encoded, event, full_event

RUNS = 100_000
SEED_BYTES = 4096
EXAMPLES = Path(__file__).parents[1] / "pure" / "contracts" / "printed" / "examples.json"
TOKENS = (
    *REQUIRED, *OPTIONAL, "HMX-1.0", "HMX-1.7", "HMX-2.0", "tool_call", "tool_result", "error", "feedback",
    "x-hmx-tick", "_hmx", "NaN", "1e400", "18446744073709551616", "-0.0", "1.0", "2016-12-31T23:59:60Z", "password",
    "sk-0123456789", "Bearer ", "://u:p@", "tokens", "-----BEGIN PRIVATE KEY-----", "tool_name", "arguments",
    "call_id", "success",
)  # fmt: skip
BYTES = (r"\\ud800", r"\\u0022", r"\xff", r"\xef\xbb\xbf", r"\x00", r"\xe2\x80\xa8")


def check(data: bytes) -> None:
    outcome = decode(data)
    if isinstance(outcome, Rejection):
        assert outcome.path.startswith("$")
        assert (outcome.path + outcome.detail).isascii()
        return
    assert isinstance(outcome, Accepted)
    episode = write_episode(outcome.event, Origin(0, 0, 0), Release(0, 0), outcome.notes, outcome.redacted)
    record = orjson.loads(episode)
    assert event_fields(record) == as_sent(outcome.fields)
    step_of(outcome.fields, 0, 0)
    canonical_json(outcome.fields)
    again = decode(orjson.dumps(event_fields(record)))
    assert isinstance(again, Accepted)
    assert again.digest == outcome.digest


def seeds() -> Iterator[bytes]:
    for some in json.loads(EXAMPLES.read_text(encoding="utf-8")).values():
        yield from (encoded(one) for one in some)
    yield encoded(full_event())
    yield encoded(event(event_type="tool_call", content={"tool_name": "x", "input": '{"password": "hunter22"}'}))
    yield encoded(event(hmx_version="HMX-1.7", mood={"a": [1]}, extensions="theirs"))
    yield from (bad.value for bad in BAD.values() if bad.value is not None)
    yield from AT_LIMIT.values()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        corpus, words = Path(folder, "corpus"), Path(folder, "words")
        corpus.mkdir()
        for number, seed in enumerate(seeds()):
            check(seed)
            if len(seed) <= SEED_BYTES:
                (corpus / f"{number}").write_bytes(seed)
        words.write_text("".join(f'"{token}"\n' for token in (*TOKENS, *BYTES)))
        options = [
            f"-runs={RUNS}",
            f"-max_len={2 * SEED_BYTES}",
            f"-dict={words}",
            "-timeout=10",
            "-print_final_stats=1",
        ]
        atheris.Setup([sys.argv[0], *options, *sys.argv[1:], str(corpus)], check)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
