"""What pyproject.toml can't say: with MYPYC=1 mypyc compiles the hot modules, which needs a C compiler.

They do the same as their sources, which stand beside them. An editable install is never compiled: what is compiled
comes before its source, however that is edited.
"""

import os
import sys
import tomllib
from pathlib import Path

from setuptools import Extension, setup


def compiled() -> list[Extension]:
    if os.environ.get("MYPYC") != "1" or "editable_wheel" in sys.argv:
        return []
    from mypyc.build import mypycify  # what it needs is among the packages for development

    modules = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["hmx"]["compiled"]
    # Each module by itself: in one group, what lies between them would have to be checked before what it imports.
    return mypycify(modules, separate=True, debug_level="0")


setup(ext_modules=compiled(), options={"build_ext": {"parallel": os.cpu_count()}})
