"""What a compressed body holds is taken whole or not at all."""

import gzip

import pytest

from hmx_pipeline.service.body import unpacked
from hmx_pipeline.service.problems import ProblemError

TEXT = b"spans" * 100
WHOLE = gzip.compress(TEXT, mtime=0)


def test_a_gzip_is_unpacked_up_to_its_limit() -> None:
    assert unpacked(WHOLE, len(TEXT)) == TEXT
    with pytest.raises(ProblemError):
        unpacked(WHOLE, len(TEXT) - 1)


@pytest.mark.parametrize("body", [b"", TEXT, WHOLE[:-1], WHOLE + WHOLE, WHOLE + b"rest"])
def test_nothing_of_a_body_is_passed_over(body: bytes) -> None:
    with pytest.raises(ProblemError):
        unpacked(body, len(TEXT) * 2)
