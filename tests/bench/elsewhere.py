"""Packages of others that a line is measured beside: each in an environment of its own under build/.

They and what they need are no part of ours. Where one can't be installed its line is left out, and says so.
"""

import json
import os
import subprocess
import venv
from pathlib import Path
from typing import Any, Final

from rich.console import Console

PATIENCE_S: Final = 900


def python_with(*packages: str) -> Path | None:
    """The Python of an environment that has `packages` (`name==version`); None where they can't be installed."""
    folder = Path("build") / packages[0].partition("[")[0].partition("=")[0]
    python = folder.absolute() / "bin" / "python"
    try:
        if not python.exists():
            venv.create(folder, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
        subprocess.run(pip, check=True, timeout=PATIENCE_S)
    except (OSError, subprocess.SubprocessError) as error:
        Console(stderr=True).print(f"left out: {packages[0]} can't be installed: {error}", highlight=False)
        return None
    return python


def answer_of(python: Path, child: str, *arguments: object) -> dict[str, Any]:
    """Runs a file of this folder with that Python; the JSON object that is its last line.

    Raises: AssertionError with what it wrote to stderr where it fails.
    """
    argv = [str(python), str(Path(__file__).with_name(child)), *map(str, arguments)]
    room = os.environ["TMPDIR"]  # whatever it leaves goes with the run
    own = {"PATH": f"{python.parent}{os.pathsep}{os.defpath}", "HOME": room, "TMPDIR": room}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, cwd=room, env=own)
    assert done.returncode == 0, f"{child}: {done.stderr[-2000:]}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
