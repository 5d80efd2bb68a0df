"""The model by which what was said in other words is found: the pinned one or none, and the same bytes every time."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hmx_pipeline.local.jars import Jar, fetched
from hmx_pipeline.retrieval.vectors import Vector
from hmx_pipeline.settings import Settings, SettingsError
from hmx_pipeline.store.embedding_model import MODEL, Semantic

TEXTS = ("The physician is free on Thursday", "You can see the sea from the first floor", "naïve Καλημέρα 🙂", "")
QUESTION = "When can I see a doctor?"


@pytest.fixture(scope="module")
def file() -> Path:
    return fetched(Jar(MODEL.group, MODEL.artifact, MODEL.version, MODEL.sha256))


@pytest.fixture(scope="module")
def model(file: Path) -> Semantic:
    pytest.importorskip("onnxruntime", reason="the extra `semantic` is not installed")
    return Semantic(file)


def test_without_the_setting_there_is_no_model() -> None:
    assert Semantic.of(Settings()) is None


def test_a_file_that_is_not_the_pinned_one_is_refused(tmp_path: Path) -> None:
    forged = tmp_path / "model.jar"
    with pytest.raises(SettingsError, match="run `hmx semantic`"):
        Semantic.of(Settings(semantic=str(forged)))
    forged.write_bytes(b"something else")
    with pytest.raises(SettingsError, match="is not the pinned file"):
        Semantic.of(Settings(semantic=str(forged)))


def test_without_its_packages_it_says_which_are_missing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(SettingsError, match=r"`hmx-pipeline\[semantic\]`"):
        Semantic(file)


def test_the_same_text_has_the_same_vector_whatever_else_is_looked_at(model: Semantic, file: Path) -> None:
    alone = [model.vector(text) for text in TEXTS]
    assert all(each and each.space == f"384:{MODEL.model}" for each in alone)
    assert [model.vector(text) for text in reversed(TEXTS)] == alone[::-1]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(model.vector, TEXTS * 8)) == alone * 8
    assert [Semantic(file).vector(text) for text in TEXTS] == alone


def test_what_says_the_same_is_nearer_than_what_has_the_words(model: Semantic) -> None:
    asked, answer, decoy = (_direction(model.vector(text)) for text in (QUESTION, *TEXTS[:2]))
    assert asked @ answer > asked @ decoy


def test_of_a_long_text_the_beginning_counts(model: Semantic) -> None:
    assert model.vector("word " * 500) == model.vector("word " * 5_000)


def _direction(made: Vector | None) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    assert made is not None
    values = np.frombuffer(made.values, np.int8).astype(np.float64)
    return np.asarray(values / np.linalg.norm(values))
