"""Ed25519 signatures (RFC 8032 §5.1), for receipts that others verify offline.

Input: a seed of 32 bytes, or a public key, and a message. Output: 64 bytes, or whether they are a signature. It takes
milliseconds and is not constant in time, so it is fit for rare signatures on one's own machine only.
"""

import hashlib
from typing import Final

_P: Final = 2**255 - 19
_L: Final = 2**252 + 27742317777372353535851937790883648493
_D: Final = -121665 * pow(121666, -1, _P) % _P
_ROOT: Final = pow(2, (_P - 1) // 4, _P)
_Point = tuple[int, int, int, int]
"""Extended coordinates: x = X / Z, y = Y / Z, x y = T / Z."""


def public_key(seed: bytes) -> bytes:
    return _packed(_times(_scalar(seed)[0], _BASE))


def sign(seed: bytes, message: bytes) -> bytes:
    a, prefix = _scalar(seed)
    own = public_key(seed)
    r = _hashed(prefix, message)
    first = _packed(_times(r, _BASE))
    return first + ((r + _hashed(first, own, message) * a) % _L).to_bytes(32, "little")


def verify(key: bytes, message: bytes, signature: bytes) -> bool:
    if len(key) != 32 or len(signature) != 64:
        return False
    owner, first = _unpacked(key), _unpacked(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if owner is None or first is None or s >= _L:
        return False
    h = _hashed(signature[:32], key, message)
    return _equal(_times(s, _BASE), _add(first, _times(h, owner)))


def _scalar(seed: bytes) -> tuple[int, bytes]:
    digest = hashlib.sha512(seed).digest()
    a = int.from_bytes(digest[:32], "little") & ((1 << 254) - 8) | (1 << 254)
    return a, digest[32:]


def _hashed(*parts: bytes) -> int:
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % _L


def _add(one: _Point, other: _Point) -> _Point:
    a = (one[1] - one[0]) * (other[1] - other[0]) % _P
    b = (one[1] + one[0]) * (other[1] + other[0]) % _P
    c, d = 2 * one[3] * other[3] * _D % _P, 2 * one[2] * other[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times(n: int, point: _Point) -> _Point:
    found: _Point = (0, 1, 1, 0)
    while n:
        if n & 1:
            found = _add(found, point)
        point, n = _add(point, point), n >> 1
    return found


def _equal(one: _Point, other: _Point) -> bool:
    return (one[0] * other[2] - other[0] * one[2]) % _P == 0 and (one[1] * other[2] - other[1] * one[2]) % _P == 0


def _x_of(y: int, sign_bit: int) -> int | None:
    if y >= _P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * _ROOT % _P
    if (x * x - square) % _P or (x == 0 and sign_bit):
        return None
    return x if x & 1 == sign_bit else _P - x


def _packed(point: _Point) -> bytes:
    inverse = pow(point[2], -1, _P)
    x, y = point[0] * inverse % _P, point[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _unpacked(packed: bytes) -> _Point | None:
    y = int.from_bytes(packed, "little")
    sign_bit, y = y >> 255, y & (1 << 255) - 1
    x = _x_of(y, sign_bit)
    return None if x is None else (x, y, 1, x * y % _P)


_Y: Final = 4 * pow(5, -1, _P) % _P
_X: Final = _x_of(_Y, 0) or 0
_BASE: Final[_Point] = (_X, _Y, 1, _X * _Y % _P)
