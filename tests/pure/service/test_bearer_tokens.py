"""Bearer tokens: what one opens, what is none, and how the issuer's keys are kept."""

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import time
from pathlib import Path
from typing import Any

import jwt
import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from hmx_pipeline.service.access import Access, admit, admitted, bound_to, grant_of, holder_of, let_decide
from hmx_pipeline.service.api_keys import USUAL, Grant, Scope, add
from hmx_pipeline.service.bearer_tokens import AGAIN_S, KEPT_S, KEYS_BYTES, TOKEN_BYTES, BearerTokens
from hmx_pipeline.service.problems import ProblemError, ProblemKind
from hmx_pipeline.settings import Settings, SettingsError
from tests.pure.service.test_access import with_key
from tests.support.issuer import MAKERS, Issuer, public, serving_keys


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer(*MAKERS)


@pytest.fixture
def tokens(issuer: Issuer, tmp_path: Path) -> BearerTokens:
    return BearerTokens(issuer.settings(tmp_path / "jwks.json"))


def allowed(tokens: BearerTokens, token: str) -> Grant | None:
    return tokens.read(token)[0]


def refusal(tokens: BearerTokens, token: str) -> str:
    grant, why = tokens.read(token)
    return "" if grant is not None else why


def segment(said: Any) -> str:
    return base64.urlsafe_b64encode(said if isinstance(said, bytes) else json.dumps(said).encode()).decode().rstrip("=")


@pytest.mark.parametrize("algorithm", MAKERS)
@pytest.mark.parametrize(
    ("claims", "grant"),
    [
        ({}, Grant("acme", USUAL, "ann")),
        ({"scope": ["read", "profile"]}, Grant("acme", frozenset({Scope.READ}), "ann")),
        ({"scope": "hmx:read hmx:other"}, Grant("acme", frozenset({Scope.READ}), "ann")),
        ({"aud": ["account", "hmx-service"], "tenant": "Zürich & Söhne"}, Grant("Zürich & Söhne", USUAL, "ann")),
    ],
)
def test_a_token_gives_the_grant_of_a_key_with_the_same_tenant_scopes_and_subject(
    issuer: Issuer, tokens: BearerTokens, tmp_path: Path, algorithm: str, claims: dict[str, Any], grant: Grant
) -> None:
    file = tmp_path / "keys"
    access = Access(str(file), 0, tokens=tokens)
    for shown in (add(file, grant), issuer.token(algorithm, **claims)):
        connection = with_key(access, shown)
        assert admit(connection, Scope.READ) == grant.tenant
        assert (grant_of(connection), bound_to(connection)) == (grant, grant.subject)
        assert admitted(connection, grant.tenant)
        let_decide(connection, "ann")
        with pytest.raises(ProblemError):
            let_decide(connection, "bob")


def test_settings_say_which_claims_are_read(issuer: Issuer, tmp_path: Path) -> None:
    claims: dict[str, Any] = {"https://acme.example/org": "globex", "permissions": ["admin", "hmx:read"]}
    named = {"jwt_tenant_claim": "https://acme.example/org", "jwt_scope_claim": "permissions"}
    tenants = BearerTokens(issuer.settings(tmp_path / "a", **named, jwt_subject_claim=""))
    assert allowed(tenants, issuer.token(**claims)) == Grant("globex", frozenset({Scope.ADMIN, Scope.READ}))
    bound = BearerTokens(issuer.settings(tmp_path / "b", **named))
    assert allowed(bound, issuer.token(**claims)) is None, "admin, and bound"
    people = BearerTokens(issuer.settings(tmp_path / "c", jwt_subject_claim="email", jwt_scope_claim=""))
    assert allowed(people, issuer.token(email="a@b.example", scope=None)) == Grant("acme", USUAL, "a@b.example")
    assert allowed(people, issuer.token()) is None, "without the claim it is not the tenant's instead"


def test_a_token_that_the_issuer_did_not_sign_opens_nothing(issuer: Issuer, tokens: BearerTokens) -> None:
    other = Issuer(*MAKERS)
    claims = issuer.claims()
    wrong = [other.token(kid) for kid in MAKERS]
    for kid, (algorithm, key) in issuer.private.items():
        head, body, signature = issuer.token(kid).split(".")
        richer = segment(issuer.claims(tenant="globex"))
        wrong += [f"{head}.{richer}.{signature}", f"{head}.{body}.", f"{head}.{body}.{segment(bytes(64))}"]
        pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        for secret in (pem, json.dumps(public(kid, algorithm, key)).encode(), b""):
            for named in (kid, None, "", "oct"):
                signed = f"{segment({'alg': 'HS256', 'kid': named})}.{body}"
                wrong.append(f"{signed}.{segment(hmac.digest(secret, signed.encode(), hashlib.sha256))}")
        for none in ("none", "None", "nOnE", "", None, [], algorithm.lower(), "RS512", "ES384", "PS256"):
            wrong += [f"{segment({'alg': none, 'kid': kid})}.{body}.{last}" for last in ("", signature)]
        for swapped in MAKERS:  # another algorithm than the key's
            wrong += [f"{segment({'alg': swapped, 'kid': kid})}.{body}.{signature}"] if swapped != algorithm else []
    theirs = other.private["ES256"][1]
    known = public("ES256", "ES256", theirs)
    for header in ({"jwk": known}, {"jku": "https://evil.example/jwks"}, {"x5u": "https://evil.example"}, {"x5c": []}):
        wrong.append(jwt.encode(claims, theirs, "ES256", {"kid": "ES256", **header}))
    for token in wrong:
        assert allowed(tokens, token) is None
        assert refusal(tokens, token)
    assert allowed(tokens, issuer.token()) == Grant("acme", USUAL, "ann")


PAST = int(time.time()) - 3600


@pytest.mark.parametrize(
    "changed",
    [
        {"aud": "other"}, {"aud": None}, {"aud": []}, {"aud": ["hmx-service", 1]}, {"aud": "hmx-service-2"},
        {"aud": {}}, {"aud": "HMX-service"}, {"iss": None}, {"iss": "https://login.acme.example/realms/acme/"},
        {"iss": "https://login.acme.example/realms/globex"},
        {"exp": PAST}, {"exp": None}, {"exp": "99999999999"}, {"exp": []}, {"exp": float("inf")}, {"exp": float("nan")},
        {"exp": True}, {"nbf": PAST + 7200}, {"nbf": "1"}, {"iat": PAST + 7200}, {"iat": {}}, {"iat": float("inf")},
        {"tenant": None}, {"tenant": ""}, {"tenant": " acme"}, {"tenant": ["acme"]}, {"tenant": {"name": "acme"}},
        {"tenant": 1}, {"tenant": True}, {"tenant": "acme\tadmin"}, {"tenant": "a\n"}, {"tenant": "\ud800"},
        {"tenant": "é" * 300},
        {"sub": None}, {"sub": ""}, {"sub": 7}, {"sub": ["ann"]}, {"sub": "?"}, {"sub": "\x00"},
        {"scope": None}, {"scope": ""}, {"scope": "openid READ hmx:hmx:read"}, {"scope": 1}, {"scope": {"read": 1}},
        {"scope": ["read", 1]}, {"scope": [["read"]]}, {"scope": "admin read"}, {"jti": 5},
    ],
)  # fmt: skip
def test_a_signed_token_opens_nothing_unless_each_claim_is_as_it_must_be(
    issuer: Issuer, tokens: BearerTokens, changed: dict[str, Any]
) -> None:
    algorithm, key = issuer.private["ES256"]
    body = json.dumps(issuer.claims(**changed)).encode()
    token = jwt.api_jws.encode(body, key, algorithm, {"kid": "ES256"})
    assert allowed(tokens, token) is None
    assert refusal(tokens, token)


def test_clocks_may_be_a_minute_apart(issuer: Issuer, tokens: BearerTokens) -> None:
    now = int(time.time())
    assert allowed(tokens, issuer.token(exp=now - 50, nbf=now + 50, iat=now + 50))
    for changed in ({"exp": now - 70}, {"nbf": now + 80}, {"iat": now + 80}):
        assert allowed(tokens, issuer.token(**changed)) is None


def test_odd_and_endless_tokens_open_nothing_and_name_no_file(
    issuer: Issuer, tokens: BearerTokens, tmp_path: Path
) -> None:
    head, body, signature = issuer.token().split(".")
    deep = b"[" * (TOKEN_BYTES // 2)
    odd: list[str] = ["", ".", "..", "...", "a.b.c", "é.é.é", f"{head}..{signature}", f"{head}.{body}.{signature}.",
                      f" {head}.{body}.{signature}\x00", f"{segment(deep)}.{body}.{signature}",
                      f"{head}.{segment(deep)}.{signature}", f"{head}.{body}.{'A' * TOKEN_BYTES}",
                      f"{head}.{body}.{'A' * 5_000_000}", issuer.token(pad="x" * TOKEN_BYTES)]  # fmt: skip
    kids: list[Any] = ["/dev/null", "../../etc/passwd", str(tmp_path / "jwks.json"), "ES256\x00", "es256", "",
                       "' OR 1=1 --", [], {"$ne": 0}, 7, None, True, "file:///etc/passwd", "https://evil.example/key",
                       "\ud800"]  # fmt: skip
    odd += [f"{segment({'alg': 'ES256', 'kid': kid})}.{body}.{signature}" for kid in kids]
    odd.append(f"{segment({'alg': 'ES256', 'kid': 'ES256', 'crit': ['b64'], 'b64': False})}..{signature}")
    odd.append(f"{segment({'alg': 'ES256', 'kid': 'ES256', 'crit': ['other'], 'other': 1})}.{body}.{signature}")
    for token in odd:
        assert allowed(tokens, token) is None
        assert refusal(tokens, token)


def test_what_is_refused_is_told_by_a_challenge_that_quotes_nothing(
    issuer: Issuer, tokens: BearerTokens, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    access = Access("", 0, tokens=tokens)
    assert not access.open
    token = issuer.token(tenant="globex", exp=PAST)
    for shown, challenge, says in (
        (token, 'Bearer error="invalid_token"', "the token is expired"),
        ("hx_test_acme", "Bearer", "send a valid key"),
        (issuer.token(tenant="_hmx"), "Bearer", "send a valid key"),
    ):
        with pytest.raises(ProblemError) as raised:
            admit(with_key(access, shown), Scope.READ)
        assert raised.value.kind is ProblemKind.UNAUTHORIZED
        assert raised.value.headers == {"WWW-Authenticate": challenge}
        assert raised.value.detail.startswith(says)
        assert not any(part in raised.value.detail + caplog.text for part in (*shown.split("."), "globex"))
    with pytest.raises(ProblemError) as raised:
        admit(with_key(access, issuer.token(scope="read")), Scope.WRITE)
    assert raised.value.kind is ProblemKind.FORBIDDEN


def test_each_token_of_a_holder_is_the_same_holder_s(issuer: Issuer, tokens: BearerTokens) -> None:
    access = Access("", 0, tokens=tokens)
    shown = [issuer.token(jti=jti, sub=sub) for jti, sub in (("1", "ann"), ("2", "ann"), ("1", "bob"))]
    assert [holder_of(with_key(access, token)) for token in shown] == ["ann", "ann", "bob"]


Clock = list[float]


def ask(tokens: BearerTokens, *shown: str) -> list[bool]:
    """Shows them all at once; whether they are taken."""

    async def arrive() -> list[bool]:
        await asyncio.gather(*map(tokens.ready, shown))
        taken = [allowed(tokens, token) is not None for token in shown]
        if (fetching := tokens._fetching) is not None:
            await fetching
        return taken

    return asyncio.run(arrive())


def test_keys_are_found_and_rotate_and_unknown_ones_are_asked_for_once_a_minute() -> None:
    now: Clock = [0.0]
    with serving_keys() as issuer:
        tokens = BearerTokens(issuer.settings(), lambda: now[0])
        first = issuer.token()
        issuer.rotate("next")
        assert ask(tokens, *[first] * 50) == [True] * 50
        assert issuer.asked == ["/.well-known/openid-configuration", "/jwks"]
        issuer.rotate("later")
        later, strangers = issuer.token("later"), [Issuer().token(headers={"kid": f"k{n}"}) for n in range(200)]
        for _ in range(3):
            assert ask(tokens, *strangers, later) == [False] * 201
        assert len(issuer.asked) == 2, "none within a minute"
        now[0] = AGAIN_S
        assert ask(tokens, *strangers, later) == [False] * 200 + [True]
        assert len(issuer.asked) == 4
        assert ask(tokens, *strangers, first, issuer.token("next")) == [False] * 200 + [True] * 2
        forged = f"{segment({'alg': 'HS256', 'kid': 'new'})}.{segment({})}.{segment(bytes(32))}"
        now[0] += AGAIN_S
        assert ask(tokens, forged, "hx_live_key", "x" * 100_000, "a.b.c") == [False] * 4
        assert len(issuer.asked) == 4, "what is no token of its algorithms asks for nothing"
        del issuer.private["ES256"]
        now[0] += KEPT_S
        ask(tokens, later)
        assert ask(tokens, first, later) == [False, True], "a key that the issuer withdrew"
        del issuer.private["later"]
        now[0] += 2 * KEPT_S
        assert ask(tokens, later) == [False], "after a long silence it is asked first"


@pytest.mark.parametrize(
    "pages",
    [
        {"/jwks": 500}, {"/jwks": 302}, {"/jwks": b"{"}, {"/jwks": []}, {"/jwks": {"keys": {}}},
        {"/jwks": {"keys": [1, {"kty": "oct", "k": "c2VjcmV0", "kid": "ES256"}]}},
        {"/jwks": lambda issuer: orjson.dumps(issuer.jwks()) + b" " * KEYS_BYTES},
        {"/jwks": b"[" * 100_000}, {"/.well-known/openid-configuration": 404},
    ],
)  # fmt: skip
def test_keys_that_cannot_be_had_leave_those_that_are_known(
    pages: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    now: Clock = [0.0]
    with serving_keys() as issuer:
        tokens, token = BearerTokens(issuer.settings(), lambda: now[0]), issuer.token()
        assert ask(tokens, token) == [True]
        issuer.pages.update(pages)
        now[0] += KEPT_S
        assert ask(tokens, token) == [True]
        assert "can't be used" in caplog.text
        assert "HMX_JWT_ISSUER: 127.0.0.1" in caplog.text.replace("http://", "")
        issuer.pages.clear()
        issuer.rotate("new")
        now[0] += AGAIN_S
        assert ask(tokens, token, issuer.token("new")) == [True, True]


def test_a_configuration_of_another_issuer_and_keys_over_plain_http_are_not_believed(tmp_path: Path) -> None:
    evil = ["http://evil.example/jwks", "https://[x", "file:///x", str(tmp_path / "jwks"), None]
    for said in ({"issuer": "https://evil.example"}, *({"jwks_uri": where} for where in evil)):
        with serving_keys() as issuer:
            where = "/.well-known/openid-configuration"
            issuer.pages[where] = {**issuer.page(where), **said}
            (tmp_path / "jwks").write_bytes(orjson.dumps(issuer.jwks()))
            assert ask(BearerTokens(issuer.settings()), issuer.token()) == [False]
            assert issuer.asked == [where]


def test_the_loop_goes_on_while_keys_are_fetched() -> None:
    with serving_keys() as issuer:
        issuer.pages["/jwks"] = 0.5
        tokens = BearerTokens(issuer.settings())

        async def beats() -> int:
            arriving, count = asyncio.create_task(tokens.ready(issuer.token())), 0
            while not arriving.done():
                await asyncio.sleep(0.01)
                count += 1
            return count

        assert asyncio.run(beats()) > 10


def test_only_public_keys_that_sign_and_are_long_enough_count(tmp_path: Path) -> None:
    issuer, file = Issuer(*MAKERS), tmp_path / "jwks"
    weak = rsa.generate_private_key(65537, 1024)
    curve = public("curve", "ES384", ec.generate_private_key(ec.SECP384R1()))
    listed = issuer.jwks()["keys"]
    listed[0]["use"] = "enc"
    listed[1]["alg"] = "ES384"
    odd = [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "off"}, {"kty": ["RSA"], "crv": {}, "kid": "odd"}]
    private = jwt.get_algorithm_by_name("EdDSA").to_jwk(issuer.private["EdDSA"][1], as_dict=True)
    odd += [{**private, "kid": "private"}, {**listed[2], "kid": ["EdDSA"]}]
    keys = [*listed, public("weak", "RS256", weak), curve, *odd]
    settings = issuer.settings(file)
    file.write_bytes(orjson.dumps({"keys": keys}))
    tokens = BearerTokens(settings)
    assert set(tokens._keys) == {"EdDSA", "weak"}
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        token = jwt.encode(issuer.claims(), weak, "RS256", {"kid": "weak"})
    assert [allowed(tokens, issuer.token(kid)) is not None for kid in MAKERS] == [False, False, True]
    assert allowed(tokens, token) is None


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"jwt_issuer": "https://a.example"}, "HMX_JWT_AUDIENCE is not set"),
        ({"jwt_audience": "hmx"}, "HMX_JWT_ISSUER is not set"),
        ({"jwt_jwks": "keys.json"}, "HMX_JWT_ISSUER is not set"),
        ({"jwt_issuer": "https://a.example", "jwt_audience": "hmx", "jwt_tenant_claim": ""}, "HMX_JWT_TENANT_CLAIM"),
        ({"jwt_issuer": "http://a.example", "jwt_audience": "hmx"}, "HMX_JWT_ISSUER='http://a.example'"),
        ({"jwt_issuer": "acme", "jwt_audience": "hmx"}, "HMX_JWT_JWKS"),
        ({"jwt_issuer": "acme", "jwt_audience": "hmx", "jwt_jwks": "http://a.example/jwks"}, "HMX_JWT_JWKS='http"),
        ({"jwt_issuer": "acme", "jwt_audience": "hmx", "jwt_jwks": "file:///keys"}, "HMX_JWT_JWKS='file"),
        ({"jwt_issuer": "https://[a", "jwt_audience": "hmx"}, "HMX_JWT_ISSUER"),
    ],
)
def test_missing_and_contradictory_settings_are_named(given: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError) as raised:
        Settings(**given)  # type: ignore[arg-type]
    assert named in str(raised.value)


def test_a_file_of_keys_that_cannot_be_used_is_named_at_start(tmp_path: Path) -> None:
    settings = Issuer().settings(tmp_path / "jwks")
    for held in (b"", b"{}", b"\xff", None):
        Path(settings.jwt_jwks).unlink() if held is None else Path(settings.jwt_jwks).write_bytes(held)
        with pytest.raises(SettingsError, match=r"HMX_JWT_JWKS: .*jwks"):
            BearerTokens(settings)
