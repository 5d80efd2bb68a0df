"""Bearer tokens: JWTs of one OpenID Connect issuer, beside API keys.

Enters: a token. Leaves: the grant of a key with the same tenant, scopes and subject, or None. Nothing of a token is
logged or answered. The issuer's keys are cached; they are fetched in a thread, and at most once a minute.
"""

import asyncio
import logging
import math
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.request import HTTPRedirectHandler, build_opener

import jwt
import orjson

from hmx_pipeline.contracts.episode import NOBODY_KNOWN
from hmx_pipeline.contracts.limits import KB
from hmx_pipeline.service.api_keys import USUAL, Grant, Scope, is_name
from hmx_pipeline.settings import Settings, SettingsError, is_trusted_url

LOG: Final = logging.getLogger("hmx.service")
TOKEN_BYTES: Final = 8 * KB
KEYS_BYTES: Final = 256 * KB
LEEWAY_S: Final = 60
"""How far the issuer's clock may be from this one."""
AGAIN_S: Final = 60
"""A key that is unknown makes the service fetch the keys, at most this often."""
KEPT_S: Final = 300
"""Keys are fetched anew when they are older, so a key that the issuer withdrew is of no use any more."""
ANSWER_S: Final = 5.0
"""How long a fetch may take, and how long a request waits for it."""
PREFIX: Final = "hmx:"
"""May stand before a scope in a token."""
_CURVES: Final = {("RSA", None): "RS256", ("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA"}
_WHY: Final[Mapping[type[Exception], str]] = {
    jwt.ExpiredSignatureError: "is expired",
    jwt.ImmatureSignatureError: "is not valid yet",
    jwt.InvalidAudienceError: "is for another audience",
    jwt.InvalidIssuerError: "is of another issuer",
}


class TokenRefusedError(Exception):
    """The token opens nothing; the message says why, and quotes nothing of it."""


class KeysUnavailableError(Exception):
    """The issuer's keys can't be had; the message names the setting."""


class BearerTokens:
    """The tokens of the issuer that the settings name."""

    def __init__(self, settings: Settings, now_s: Callable[[], float] = time.monotonic) -> None:
        """Reads keys that are in a file. Raises SettingsError if it can't be used."""
        self._settings, self._now_s = settings, now_s
        self._keys: dict[str, jwt.PyJWK] = {}
        self._tried = -math.inf
        self._fetching: asyncio.Task[None] | None = None
        if settings.jwt_jwks and not is_trusted_url(settings.jwt_jwks):
            try:
                self._keys, self._tried = fetch_keys(settings), now_s()
            except KeysUnavailableError as error:
                raise SettingsError(str(error)) from None

    async def ready(self, token: str) -> None:
        """Fetches keys if the token's is unknown, and waits for them; in the background if the known ones are old.
        After long silence it waits for these, too."""
        if (kid := _kid(token)) is None:
            return
        unknown, age = kid not in self._keys, self._now_s() - self._tried
        if self._fetching is None and age >= (AGAIN_S if unknown else KEPT_S):
            self._tried = self._now_s()
            self._fetching = asyncio.create_task(asyncio.to_thread(self._fetch))
            self._fetching.add_done_callback(self._fetched)
        if self._fetching is not None and (unknown or age >= 2 * KEPT_S):
            await asyncio.wait({self._fetching}, timeout=ANSWER_S)

    def _fetch(self) -> None:
        try:
            self._keys = fetch_keys(self._settings)
        except KeysUnavailableError as error:
            LOG.warning("%s: goes on with the %d keys it has", error, len(self._keys))

    def _fetched(self, _: asyncio.Task[None]) -> None:
        self._fetching = None

    def read(self, token: str) -> tuple[Grant | None, str]:
        """Returns what the token allows by the keys that are known now, and whose it is; or None, and why nothing."""
        try:
            return self._read(token)
        except TokenRefusedError as error:
            return None, str(error)

    def _read(self, token: str) -> tuple[Grant, str]:
        if (kid := _kid(token)) is None:
            raise TokenRefusedError("is none that is read: a JWT with a kid, by RS256, ES256 or EdDSA, of at most 8 KB")
        if (key := self._keys.get(kid)) is None:
            raise TokenRefusedError("is signed with a key that the issuer is not known to have")
        said = self._settings
        try:
            claims = jwt.decode(
                token,
                key,
                [key.algorithm_name],
                {"require": ["exp", "iss", "aud"], "enforce_minimum_key_length": True},
                audience=said.jwt_audience,
                issuer=said.jwt_issuer,
                leeway=LEEWAY_S,
            )
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise TokenRefusedError(_WHY.get(type(error), "is not valid, or not signed by the issuer")) from None
        if any(isinstance(claims.get(name), str) for name in ("exp", "nbf", "iat")):
            raise TokenRefusedError("has a time that is no number")
        subject = _name(claims, said.jwt_subject_claim) if said.jwt_subject_claim else None
        scopes = _scopes(claims, said.jwt_scope_claim)
        if subject is not None and (Scope.ADMIN in scopes or subject == NOBODY_KNOWN):
            raise TokenRefusedError("is bound to a subject, and has the scope admin or names nobody")
        return Grant(_name(claims, said.jwt_tenant_claim), scopes, subject), claims.get("sub", "")


def _kid(token: str) -> str | None:
    """Returns the id of the key that a token names; None if it is no token, or of another algorithm."""
    if len(token) > TOKEN_BYTES or token.count(".") != 2:
        return None
    head = token.partition(".")[0]
    try:
        header = orjson.loads(urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except ValueError:
        return None
    if not isinstance(header, dict) or header.get("alg") not in list(_CURVES.values()):
        return None
    kid = header.get("kid")
    return kid if isinstance(kid, str) else None


def _name(claims: Mapping[str, Any], claim: str) -> str:
    name = claims.get(claim)
    if not isinstance(name, str) or not is_name(name):
        raise TokenRefusedError(f"has no name in the claim {claim}")
    return name


def _scopes(claims: Mapping[str, Any], claim: str) -> frozenset[Scope]:
    if not claim:
        return USUAL
    said = claims.get(claim)
    words = said.split() if isinstance(said, str) else said
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        words = []
    scopes = frozenset(scope for scope in Scope if scope in words or PREFIX + scope in words)
    if not scopes:
        raise TokenRefusedError(f"has none of {', '.join(Scope)} in the claim {claim}")
    return scopes


def fetch_keys(settings: Settings) -> dict[str, jwt.PyJWK]:
    """Returns the issuer's public keys by id. Raises KeysUnavailableError."""
    setting, where = "HMX_JWT_JWKS", settings.jwt_jwks
    try:
        if not where:
            setting = "HMX_JWT_ISSUER"
            where = f"{settings.jwt_issuer.rstrip('/')}/.well-known/openid-configuration"
            found = _document(where)
            if found.get("issuer") != settings.jwt_issuer or not is_trusted_url(str(found.get("jwks_uri"))):
                raise ValueError("it names another issuer, or no keys over https")
            where = found["jwks_uri"]
        listed = _document(where).get("keys")
        keys = {each["kid"]: key for each in listed if (key := _key(each))} if isinstance(listed, list) else {}
        if not keys:
            raise ValueError("it holds no public key with a kid for RS256, ES256 or EdDSA")
    except (OSError, HTTPException, ValueError) as error:
        raise KeysUnavailableError(f"{setting}: {where.rpartition('@')[2]} can't be used: {error}") from None
    return keys


def _key(said: Any) -> jwt.PyJWK | None:
    if not isinstance(said, dict) or not isinstance(said.get("kid"), str) or "d" in said:
        return None
    algorithm = next((name for kind, name in _CURVES.items() if kind == (said.get("kty"), said.get("crv"))), None)
    if algorithm is None or said.get("alg", algorithm) != algorithm or said.get("use", "sig") != "sig":
        return None
    try:
        return jwt.PyJWK(said, algorithm)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None


class _Staying(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follows none, so that keys come from where the settings say."""


_OPENER: Final = build_opener(_Staying)


def _document(where: str) -> dict[str, Any]:
    """Raises OSError, HTTPException and ValueError."""
    until, held = time.monotonic() + ANSWER_S, bytearray()
    with _OPENER.open(where, timeout=ANSWER_S) if is_trusted_url(where) else Path(where).open("rb") as source:
        while part := source.read1(KEYS_BYTES):
            held += part
            if len(held) > KEYS_BYTES or time.monotonic() > until:
                raise ValueError(f"more than {KEYS_BYTES // KB} KB or {ANSWER_S:.0f} s")
    said = orjson.loads(held)
    if not isinstance(said, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004  as another malformed document
    return said
