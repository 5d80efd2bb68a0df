"""What the image holds of others and under which licence, as CycloneDX: `deploy/sbom.cdx.json` (`make docs` writes it).

The packages are those of requirements.lock that a Linux image installs. Their licences are what each says of itself.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any, Final

from packaging.markers import Marker

ROOT: Final = Path(__file__).parents[2]
FILE: Final = ROOT / "deploy/sbom.cdx.json"
_LINE: Final = re.compile(r"^([a-z0-9._-]+)==([^ ;\\]+)(?: ; ([^\\\n]+?))? \\$", re.MULTILINE)
_IMAGE: Final = {
    "sys_platform": "linux", "platform_python_implementation": "CPython", "implementation_name": "cpython",
    "python_full_version": "3.11.0",
}  # fmt: skip
_SPDX: Final = {
    "Apache 2": "Apache-2.0", "Apache 2.0": "Apache-2.0", "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0", "BSD License": "BSD-3-Clause", "ISC License": "ISC",
    "BSD-derived (Repoze)": "LicenseRef-Repoze", "MIT License": "MIT", "MIT, BSD": "MIT AND BSD-3-Clause",
}  # fmt: skip
"""How packages spell a licence that has another name in SPDX."""


def packages() -> Iterator[tuple[str, str]]:
    """Names and versions, in the lock's order."""
    for name, version, marker in _LINE.findall((ROOT / "requirements.lock").read_text()):
        if not marker or Marker(marker).evaluate(_IMAGE):
            yield name, version


def licence(name: str) -> str:
    """An SPDX expression. A package that is not installed, or says nothing, has none."""
    try:
        said = metadata(name)
    except PackageNotFoundError:
        return ""
    classes = [line.rpartition(" :: ")[2] for line in said.get_all("Classifier") or [] if line.startswith("License")]
    free = (said.get("License") or "").strip()
    named = said.get("License-Expression") or (free if free and len(free) < 40 else "") or " ".join(classes)
    return _SPDX.get(named, named)


def by_licence() -> dict[str, list[str]]:
    found = defaultdict(list)
    for name, _ in packages():
        found[licence(name)].append(name)
    return dict(sorted(found.items()))


def document() -> str:
    """Deterministic: no time and no serial number, so that it changes with the lock alone."""
    components: list[dict[str, Any]] = [
        {
            "type": "library", "bom-ref": f"pkg:pypi/{name}@{version}", "name": name, "version": version,
            "purl": f"pkg:pypi/{name}@{version}", "licenses": [{"expression": licence(name)}],
        }
        for name, version in packages()
    ]  # fmt: skip
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1}
    return json.dumps({**bill, "components": components}, indent=1) + "\n"
