"""What pyproject.toml can't say: a wheel carries topic files and pages, and with MYPYC=1 mypyc compiles hot modules.

Compiling needs a C compiler. What is compiled does the same as its source, which stands beside it. An editable install
is never compiled, because what is compiled comes before its source, however that is edited; and it reads the files
of the checkout.
"""

import os
import shutil
import sys
import tomllib
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py


def compiled() -> list[Extension]:
    if os.environ.get("MYPYC") != "1" or "editable_wheel" in sys.argv:
        return []
    from mypyc.build import mypycify  # what it needs is among the packages for development

    modules = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["hmx"]["compiled"]
    # Each module by itself: in one group, what lies between them would have to be checked before what it imports.
    return mypycify(modules, separate=True, debug_level="0")


class WithFiles(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for folder, files in (("topics", "*"), ("docs", "*.md"), ("docs", "*.svg")):
                for file in (each for each in Path(folder).rglob(files) if each.is_file()):
                    place = Path(self.build_lib) / "hmx_pipeline" / file
                    place.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(file, place)


setup(ext_modules=compiled(), cmdclass={"build_py": WithFiles}, options={"build_ext": {"parallel": os.cpu_count()}})
