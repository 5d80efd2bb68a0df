"""`python -m tests.support.vocabulary` makes the file of tokens that `pipeline/hmx_pipeline/packs/tokens.py` counts
with."""

import base64
import gzip
import lzma
from importlib.resources import files
from pathlib import Path
from typing import Final

from hmx_pipeline.packs import tokens

ENCODINGS: Final = ("cl100k_base", "o200k_base")
FILE: Final = Path(tokens.__file__).with_name("vocabulary.xz")


def ranks(encoding: str) -> dict[bytes, int]:
    """Its tokens, as the tokeniser's package carries them: the lower, the more common."""
    packed = files("bpe_openai").joinpath("data", f"{encoding}.tiktoken.gz").read_bytes()
    lines = (line.split() for line in gzip.decompress(packed).splitlines() if line.strip())
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def tokens_of(encoding: str) -> list[bytes]:
    """By rank."""
    found = ranks(encoding)
    assert sorted(found.values()) == list(range(len(found)))
    return sorted(found, key=found.__getitem__)


def main() -> None:
    held = b"".join(tokens.vocabulary_bytes(tokens_of(encoding)) for encoding in ENCODINGS)
    FILE.write_bytes(lzma.compress(held, preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
