"""HMX-V: `HMX-{major}.{minor}`; one major is supported, every minor of it is compatible."""

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


@lru_cache(maxsize=8)  # nearly all events name the same one
def parse_version(text: str) -> Version | None:
    """`HMX-1.37` → (1, 37); None where the form of HMX-E §6.1 is not kept."""
    match = _FORM.fullmatch(text)
    return Version(int(match[1]), int(match[2])) if match else None


def spoken(offered: Iterable[str]) -> str | None:
    """The first of these names, such as the subprotocols `hmx-1.0`, that is a version of the supported major."""
    for name in offered:
        version = parse_version(name.upper())
        if version is not None and version.supported:
            return name
    return None
