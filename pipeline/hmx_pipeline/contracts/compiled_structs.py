"""Structs that msgspec has compiled before threads share them.

msgspec compiles a struct when it is first used; if another thread uses it meanwhile, the process may end by a
segmentation fault. So what functions give to `msgspec.convert` is compiled while its module is imported.
"""

from typing import TypeVar

import msgspec

Form = TypeVar("Form")


def compiled(struct: Form) -> Form:
    """Returns the struct itself."""
    msgspec.json.Decoder(struct)
    return struct
