"""HMX version parsing and support: `HMX-{major}.{minor}`; one major, all its minors (HMX-V)."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

HMX_VERSION: Final = "HMX-1.0"
SUPPORTED_MAJOR: Final = 1
SUPPORTED: Final = f"HMX-{SUPPORTED_MAJOR}.x"
_FORM: Final = re.compile(r"HMX-(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})", re.ASCII)


class Version(NamedTuple):
    major: int
    minor: int

    @property
    def supported(self) -> bool:
        return self.major == SUPPORTED_MAJOR


@lru_cache(maxsize=8)  # nearly all events have the same version
def parse_version(text: str) -> Version | None:
    """Parse `HMX-1.37` to (1, 37); None if it is malformed (HMX-E §6.1)."""
    match = _FORM.fullmatch(text)
    return Version(int(match[1]), int(match[2])) if match else None


def spoken(offered: Iterable[str]) -> str | None:
    """Return the first of these names, such as the subprotocol `hmx-1.0`, that is a supported version."""
    for name in offered:
        version = parse_version(name.upper())
        if version is not None and version.supported:
            return name
    return None
