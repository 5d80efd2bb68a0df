"""`python -m tests.support.vocabulary` makes the file of tokens that `pipeline/packs/tokens.py` counts with."""

import base64
import gzip
import lzma
from importlib.resources import files
from pathlib import Path
from typing import Final

from pipeline.packs import tokens

ENCODINGS: Final = ("cl100k_base", "o200k_base")
FILE: Final = Path(tokens.__file__).with_name("vocabulary.xz")


def known(encoding: str) -> set[bytes]:
    """Its tokens, as the tokeniser's package carries them."""
    ranks = files("bpe_openai").joinpath("data", f"{encoding}.tiktoken.gz").read_bytes()
    return {base64.b64decode(line.split()[0]) for line in gzip.decompress(ranks).splitlines() if line.strip()}


def shared() -> set[bytes]:
    """Outside ASCII the first has fewer tokens, and its own are the longest that both can be counted with."""
    first, second = map(known, ENCODINGS)
    return {token for token in first if token in second or not token.isascii()}


def main() -> None:
    FILE.write_bytes(lzma.compress(tokens.packed(shared()), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
