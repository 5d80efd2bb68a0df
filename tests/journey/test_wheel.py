"""The wheel alone, in an empty folder: it carries the topics, pages, languages and samples that it needs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing of this project but what its wheel installs."""
    built = tmp_path_factory.mktemp("built")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    source = built / "source"
    source.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        (source / name).write_bytes((ROOT / name).read_bytes())
    for name in ("pipeline", "topics", "integrations", "docs"):
        subprocess.run(["cp", "-r", str(ROOT / name), str(source)], check=True)
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", built, source], check=True)
    (wheel,) = built.glob("*.whl")
    installed = tmp_path_factory.mktemp("site")
    subprocess.run([*pip, "install", "--no-deps", "--target", installed, wheel], check=True)
    return installed


def test_it_starts_the_whole_stack_and_answers(site: Path, tmp_path: Path) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HMX_")}
    env = {**inherited, "PYTHONPATH": str(site)}

    def hmx(*words: str) -> str:
        argv = [sys.executable, "-m", "hmx_pipeline.cli", *words]
        done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        return done.stdout

    found = subprocess.run(
        [sys.executable, "-c", "import hmx_pipeline; print(hmx_pipeline.__file__)"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.startswith(str(site))
    assert (site / "hmx_pipeline/docs/index.md").read_bytes() == (ROOT / "docs/index.md").read_bytes()
    try:
        hmx("up")
        (tmp_path / "events.ndjson").write_bytes((site / "hmx_pipeline" / "local" / "samples.ndjson").read_bytes())
        hmx("publish", "events.ndjson")
        hmx("wait")
        tenant = json.loads((tmp_path / "events.ndjson").read_bytes().splitlines()[0])["tenant_id"]
        pack = json.loads(hmx("pack", "deploy", "--tenant", tenant, "--fill", "budget", "--json"))
        assert pack["entries"]
    finally:
        subprocess.run([sys.executable, "-m", "hmx_pipeline.cli", "down"], cwd=tmp_path, env=env, check=False)
