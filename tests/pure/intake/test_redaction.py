"""No secret gets past intake, and nothing else is touched."""

import json
import re
import sys
from collections.abc import Callable
from functools import reduce
from types import FrameType
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.limits import REDACTED_PATH, REDACTED_PATHS
from hmx_pipeline.contracts.rejections import Reason, Rejection
from hmx_pipeline.intake.decode import Accepted, decode
from hmx_pipeline.intake.redaction import redact
from hmx_pipeline.intake.scan import REDACTED
from hmx_pipeline.intake.secret_rules import suspicious
from hmx_pipeline.intake.secret_tokens import holds_token
from tests.support.events import encoded, event, full_event

BODY = "Zq7Xw2Lk9Tb4Vn8Rc5Jm"  # what every secret below holds, so that a trace of it can be searched for
SHAPED = [
    f"sk-{BODY}",
    f"sk-proj-{BODY}",
    f"pypi-AgEI{BODY}",
    "AKIA" + BODY.upper()[:16],
    f"eyJhbGciOiJIUzI1NiJ9.eyJ{BODY}.{BODY}",
    f"ghp_{BODY}",
    f"github_pat_{BODY}",
    f"xoxb-1234-{BODY}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN PRIVATE KEY-----\n{BODY}",
    f"Bearer {BODY}",
    f"bearer  {BODY}",
]
IN_TEXT = [
    f"mysql --password={BODY} -u root",
    f"mysql --password {BODY} -u root",
    f"push --registry-token  {BODY}",
    f"export GITHUB_TOKEN={BODY}; make",
    f"API_KEY='{BODY} {BODY}' ./run",
    f'curl -H "Authorization: Basic {BODY}" http://x',
    f"Cookie: session={BODY}; theme={BODY}",
    f"git clone https://user:{BODY}@example.org/x.git",
    f"postgres://app:{BODY}@db:5432/x",
    rf"postgres:\/\/app:{BODY}@db:5432\/x",
    f'client_secret = "{BODY}"',
    f'log: {{"password": "{BODY}"}} end',
    f'log: {{\\"password\\": \\"{BODY}\\"}} end',
    f'cut off: {{"access_token": "{BODY}',
    f"https://example.org/?access_token={BODY}&x=1",
    f"environment:\n  POSTGRES_PASSWORD: {BODY}\n  USER: app",
    f"here is the password: {BODY}",
    f"The db password for prod is {BODY}.",
    f"Our admin password is now {BODY}",
    f"the api key for the shop is {BODY}, do not share it",
    f"My passphrase was {BODY} before",
    f"PASSPHRASE={BODY}",
    f"dbpass = '{BODY}'",
    f"smtppass={BODY}",
    f'<add key="auth" value="{BODY}"/>',
    f"<auth>{BODY}</auth>",
    f"auth: |\n  {BODY}",
    f"--password '\"{BODY}\"'",
    f'password = """{BODY}"""',
    f"curl -u :{BODY} http://x",
    f"ALTER USER x IDENTIFIED WITH some_plugin AS '{BODY}'",
    f"CREATE LOGIN x PASSWORD  =  ( &apos;{BODY}&apos;",
]
TOLD = [
    "The db password for prod is {tr0ub4dor}.", "My password is {Sommer2026}.", "Our admin password is {Sommer2026}",
    "the password is {hunter2!}", "the root password was {Password1!}, sorry", "The password is {fooBar}.",
    "My password is {Sommer}.", "our wifi password is {geheim}\nok?", "the password for it is '{swordfish}'",
    'My password is "{correct horse}".', "my passphrase is {correct horse battery staple}.", "Our PIN is {4711}",
    "my PIN number: {123456} thanks", "Our staging API key is {abc123def456}.", "password = {hunter2}",
    "The credentials for prod are {admin/Sommer2026}.", "the access token of the shop is {9f8e7d6c5b4a}.",
    "The password's {hunter2}", "passwd: {Sommer2026}", "The password is **{hunter2}**, ok?",
    "the password is `{hunter2}`", "I changed the password to {Sommer2026}", "password (prod): {hunter2}",
    "{4111 1111 1111 1111}", "my card is {4111111111111111}, ok", "{5500-0000-0000-0004}", "{378282246310005}",
    "it is {3782 822463 10005}.", "{4222222222222}",
]  # fmt: skip
"""What is told in plain words, in braces."""
STATED = [
    "the password is wrong", "The password is expired.", "my password is wrong!", "the token is invalid",
    "My password is not working", "my password is hard to remember", "My passphrase is not working at all",
    "Our password is required", "the password is too short", "the password is at least 8 characters",
    "the token is 1024 characters long", "the password is base64-encoded", "the password is 8-digit",
    "the token is next_token", "the token is self.next.token", "the token is 'abc'", "the pin is 12", "Pin 12 is high",
    "Our secret is simplicity.", "password = getPassword(x1)", "password = password1",
    "the password was changed in 2024",
    "Our passwords are rotated every 90 days.", "My password is in 1Password.", "the API key is $API_KEY2",
    "add the password to utils2.py", "we pass the token to step2foo1", "send the secret to node1234",
    "I changed the password to something stronger", "The password (old): wrong", "The token's lifetime is 5",
    "the password is `user_password`", "the credentials are in ~/.aws/credentials2",
    "the password is ****", "Our token budget is 4000.",
    "1790000000000", "1790000000000000000", "2019 2020 2021 2022", "4111 1111 1111 1112", "0.4111111111111111",
    "4111111111111111a", "4111-1111-1111",
    'password="", user="x"', '{\\"token\\": \\"\\", \\"user\\": \\"bob smith\\"}', "token = ''; name = 'bob'",
    'class Password:\n    """\n    Asks for it."""', "username=info[0], password=info[2]", "{auth: oauth2.auth, a: 1}",
    "private_key: ed25519.Ed25519PrivateKey, a: b", "bypass=Abc123xyz", 'compass: "x1y2z3w4"',
]  # fmt: skip
"""What is said of secrets, and numbers in a row, that give nothing away."""
KEYS = [
    "password", "API-KEY", "api_key", "apiKey", "x-authorization", "Set-Cookie", "credentials", "privateKey",
    "clientSecret", "auth_token", "tokens",
]  # fmt: skip

secret_text = st.sampled_from([*SHAPED, *IN_TEXT]).flatmap(
    lambda text: st.tuples(
        st.sampled_from(["", "see ", "é\n"]), st.just(text), st.sampled_from(["", " and so on", "\n"])
    ).map("".join)
)
secret_pair = st.tuples(
    st.sampled_from(KEYS), st.sampled_from([BODY, [BODY], {"a": {"b": BODY}}, [{"value": BODY}]])
).map(lambda pair: dict([pair]))
named_pair = st.tuples(
    st.sampled_from(["name", "key", "header", "field"]), st.sampled_from([key for key in KEYS if key != "tokens"])
).map(lambda pair: {pair[0]: pair[1], "value": BODY})
planted = st.recursive(
    secret_text | secret_pair | named_pair | secret_text.map(lambda text: {text: 1}),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=2)
        | st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=2)
        | inner.map(json.dumps)
        | inner.map(lambda value: json.dumps({"inner": value}, indent=1))
    ),
    max_leaves=4,
)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=8,
)


def decoded(sent: dict[str, Any]) -> Accepted:
    outcome = decode(encoded(sent))
    assert isinstance(outcome, Accepted), outcome
    return outcome


def _lines_run(call: Callable[[], object]) -> int:
    """How many lines of Python a call runs: a measure of work that no other process disturbs."""
    lines = 0

    def trace(_frame: FrameType, what: str, _argument: object) -> Any:
        nonlocal lines
        lines += what == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines


def holds_secret(value: Any) -> bool:
    return BODY.lower()[:16] in orjson.dumps(value).decode().lower()


class TestSecrets:
    @pytest.mark.requirement("R-12", "Y18")
    @given(planted, st.sampled_from(["content", "metadata"]))
    def test_planted_anywhere_are_found_nowhere(self, value: Any, name: str) -> None:
        outcome = decoded(event(**{name: {"x": value}}))
        assert not holds_secret(outcome.fields)
        assert not holds_secret(outcome.value.decode())
        assert not holds_secret(msgspec.json.encode(outcome.event).decode())
        assert not holds_secret(outcome.redacted)
        assert outcome.redacted
        assert all(path.startswith(f"$.{name}.x") for path in outcome.redacted)

    @pytest.mark.requirement("R-12")
    @pytest.mark.parametrize("text", [*SHAPED, *IN_TEXT])
    @pytest.mark.parametrize("name", ["source", "provenance_ref", "tags"])
    def test_in_other_texts_of_the_event_are_taken_out(self, name: str, text: str) -> None:
        outcome = decoded(event(**{name: ["x", text] if name == "tags" else text}))
        assert not holds_secret(outcome.fields)
        assert outcome.redacted == ("$.tags[1]" if name == "tags" else f"$.{name}",)

    def test_in_fields_of_a_later_minor_are_taken_out(self) -> None:
        outcome = decoded(event(hmx_version="HMX-1.2", auth_token=BODY))
        assert outcome.fields["extensions"] == {"auth_token": REDACTED}

    @pytest.mark.parametrize("name", ["-----BEGIN PRIVATE KEY-----mood", "ghp_0123456789abcdefghij"])
    def test_in_names_of_a_later_minors_fields_are_taken_out(self, name: str) -> None:
        outcome = decode(encoded(event(hmx_version="HMX-1.7", **{name: 1})))
        assert isinstance(outcome, Accepted)
        assert outcome.fields["extensions"] == {REDACTED: 1}
        assert name.encode() not in outcome.value

    @pytest.mark.requirement("Y18")
    @pytest.mark.parametrize("escaped", ['{"passw\\u006frd":"%s"}', '{"a":{"passw\\u006frd":"%s"}}'])
    def test_hidden_behind_escapes_are_found(self, escaped: str) -> None:
        inner = escaped % BODY
        raw = encoded(event()).replace(b'"metadata":{}', b'"metadata":' + inner.encode())
        outcome = decode(raw)
        assert isinstance(outcome, Accepted)
        assert not holds_secret(outcome.fields)
        assert not holds_secret(decoded(event(metadata={"text": inner})).fields)

    def test_around_them_the_text_stays(self) -> None:
        outcome = decoded(event(content={"text": f"git clone https://user:{BODY}@example.org/x.git && make"}))
        assert outcome.fields["content"] == {"text": f"git clone https://user:{REDACTED}@example.org/x.git && make"}

    @pytest.mark.requirement("Y18")
    def test_deep_in_texts_within_texts_are_found(self) -> None:
        value: Any = {"password": BODY}
        for _ in range(8):
            value = {"a": json.dumps(value)}
        assert not holds_secret(decoded(event(content=value)).fields)
        deep = "[" * 900 + json.dumps(f"sk-{BODY}") + "]" * 900
        assert not holds_secret(decoded(event(content={"text": deep})).fields)

    @pytest.mark.parametrize("text", IN_TEXT)
    @pytest.mark.parametrize("after", ["", " and so on", "\n"])
    def test_in_texts_are_taken_out_whatever_follows(self, text: str, after: str) -> None:
        assert not holds_secret(decoded(event(content={"text": text + after})).fields)

    @pytest.mark.requirement("R-12", "Y18")
    @pytest.mark.parametrize("text", TOLD)
    def test_told_in_plain_words_are_taken_out_and_nothing_else(self, text: str) -> None:
        outcome = decoded(event(content={"text": text.replace("{", "").replace("}", "")}))
        assert outcome.fields["content"] == {"text": re.sub(r"\{.*?\}", REDACTED, text)}
        assert outcome.redacted == ("$.content.text",)

    @given(st.text("0123456789", min_size=14, max_size=14), st.sampled_from(["", " ", "-"]))
    def test_numbers_of_cards_are_told_by_their_check_digit(self, middle: str, gap: str) -> None:
        def number(last: int) -> str:
            digits = f"4{middle}{last}"
            return gap.join(digits[at : at + 4] for at in range(0, 16, 4))

        taken = [last for last in range(10) if decoded(event(content={"text": number(last)})).redacted]
        assert len(taken) == 1

    def test_in_two_keys_of_an_object_leave_two_keys(self) -> None:
        fields = decoded(event(content={f"sk-{BODY}1": 1, f"sk-{BODY}2": 2})).fields
        assert sorted(fields["content"].values()) == [1, 2]
        assert not holds_secret(fields)

    def test_in_keys_leave_names_in_the_order_of_the_document(self) -> None:
        keys = [f"sk-{BODY}1", f"{REDACTED}+2", f"sk-{BODY}2", f"sk-{BODY}3", f"{REDACTED}+", f"sk-{BODY}4"]
        fields, _ = redact(event(content={key: at for at, key in enumerate(keys)}))
        assert fields["content"] == {
            REDACTED: 0, f"{REDACTED}+2": 1, f"{REDACTED}+": 2, f"{REDACTED}+3": 3, f"{REDACTED}++": 4,
            f"{REDACTED}+4": 5,
        }  # fmt: skip
        assert list(fields["content"].values()) == list(range(6))

    @pytest.mark.parametrize(
        "hostile",
        [
            lambda n: {f"sk-q{n}x{at:07}": 1 for at in range(n)},
            lambda n: {f"{REDACTED}+{at}": 1 for at in range(n)} | {f"sk-r{n}x{at:07}": 1 for at in range(n)},
            lambda n: reduce(
                lambda inner, at: {f"level{at:060}": inner}, range(150), [f"sk-s{n}x{at:07}" for at in range(n)]
            ),
        ],
    )
    def test_in_many_keys_cost_steps_and_bytes_in_proportion(self, hostile: Callable[[int], dict[str, Any]]) -> None:
        few, many = (event(content=hostile(n)) for n in (200, 2000))
        assert _lines_run(lambda: redact(many)) < 12 * _lines_run(lambda: redact(few))
        clean, paths = redact(many)
        assert len(encoded(clean)) < 2 * len(encoded(many))
        assert sum(map(len, paths)) <= REDACTED_PATHS * REDACTED_PATH

    def test_make_no_difference_between_two_events(self) -> None:
        one, other = (decoded(event(content={"password": text})) for text in ("a", "b"))
        assert one.digest == other.digest

    @pytest.mark.parametrize(
        "part",
        [
            "token",
            "-eyJaaaaa",
            "token ",
            " --a-token",
            "-",
            'token="',
            "bearer ",
            "://a:",
            "\\\\",
            "-----BEGIN PRIVATE KEY-----",
            "sk-",
            "token is ",
            "my password for a ",
            "my a b password is x! ",
            "4111 ",
        ],
    )
    def test_are_looked_for_in_a_time_that_grows_with_the_text(self, part: str) -> None:
        decoded(event(content={"text": part * (200_000 // len(part)), "password": BODY}))


class TestTheRest:
    @pytest.mark.requirement("Y09")
    @pytest.mark.parametrize(
        "content",
        [
            dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens", "max_tokens"), 5),
            dict.fromkeys(("tokens_used", "token_count", "maxTokens"), 5),
            {"usage": {"token_usage": {"input_tokens": 3}}, "max_tokens": "4000"},
            {"text": "call(max_tokens=4000, temperature=1) and --max-tokens 5"},
            {"text": "token=read_token() and TOKEN=$TOKEN; if token == other: pass"},
            {"text": "Merge track-token-usage into main"},
            {"text": "task-force-one-two disk-usage-report-long"},
            {"text": "the bearer of bad news; see http://a/b and mail me@example.org"},
            {"password": "", "secret": None, "token": False},
            {"text": "password: must have eight letters\ntoken: see the wiki page"},
            {"name": "max_tokens", "value": 4000},
            {"name": "retries", "value": "three"},
            *({"text": text} for text in STATED),
        ],
    )
    def test_that_only_looks_like_it_stays(self, content: dict[str, Any]) -> None:
        outcome = decoded(event(content=content))
        assert outcome.fields["content"] == content
        assert outcome.redacted == ()

    @pytest.mark.requirement("Y09")
    def test_of_the_event_keeps_its_ids_type_and_timestamp(self) -> None:
        text = f"sk-{BODY}"
        names = (
            "event_id", "event_type", "agent_id", "tenant_id", "session_id", "trace_id", "correlation_id",
            "parent_event_id",
        )  # fmt: skip
        sent = full_event(**dict.fromkeys(names, text), content={"password": BODY})
        outcome = decoded(sent)
        assert outcome.fields == sent | {"content": {"password": REDACTED}}

    @given(plain)
    def test_without_a_secret_is_the_same_object(self, value: Any) -> None:
        fields = event(content={"x": value})
        clean, paths = redact(fields)
        assert (clean is fields) is (paths == ())
        dump = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
        if not (suspicious(dump) or holds_token(dump)):
            assert clean is fields

    @given(planted)
    def test_is_not_changed_where_it_stands(self, value: Any) -> None:
        fields = event(content={"x": value})
        before = orjson.dumps(fields)
        redact(fields)
        assert orjson.dumps(fields) == before


class TestRedacting:
    @given(planted | plain, planted | plain)
    def test_twice_changes_nothing_more(self, one: Any, two: Any) -> None:
        once, _ = redact(event(content={"x": one}, metadata={"y": two}))
        twice, paths = redact(once)
        assert (twice, paths) == (once, ())

    @given(
        st.lists(
            st.sampled_from(
                [
                    *IN_TEXT,
                    *SHAPED,
                    *TOLD,
                    "token=",
                    "password: ",
                    "my password is ",
                    "4111 ",
                    '"',
                    "'",
                    " ",
                    "=",
                    REDACTED,
                    "\n",
                    "cookie:",
                    "x",
                ]
            ),
            max_size=6,
        )
    )
    def test_any_mixture_of_texts_twice_changes_nothing_more(self, parts: list[str]) -> None:
        once, _ = redact(event(content={"x": "".join(parts)}))
        twice, paths = redact(once)
        assert (twice, paths) == (once, ())

    def test_a_placeholder_that_a_secret_was_taken_out_of_is_judged_anew(self) -> None:
        key = f"x-----BEGIN PRIVATE KEY-----{BODY} " + "x" * 20
        for fields in ({"metadata": {"token": key}}, {"content": ["--password", key]}):
            once, _ = redact(fields)
            assert redact(once) == (once, ())
            assert REDACTED in (once.get("metadata", {}).get("token"), once.get("content", [None])[-1])

    def test_an_argument_beside_a_key_of_several_lines_goes_too(self) -> None:
        key = ["-----BEGIN PRIVATE KEY-----", BODY, "-----END PRIVATE KEY-----"]
        once, _ = redact({"content": ["run", "--token", "abcdefgh", *key]})
        assert once == {"content": ["run", "--token", REDACTED, REDACTED]}
        assert redact(once) == (once, ())

    def test_of_a_value_near_a_bound_twice_changes_nothing_more(self) -> None:
        """A mark is longer than what it stands for."""
        for size in range(480, 513):
            value = "xxxxxx://u:p@" + "x" * (size - 13)
            once, _ = redact(event(content={"token": value}))
            assert redact(once) == (once, ())

    def test_leaves_no_id_beyond_its_bound(self) -> None:
        for size in range(500, 513):
            outcome = decode(encoded(event(event_type="tool_call", content={"call_id": "://u:p@" + "x" * (size - 7)})))
            if isinstance(outcome, Rejection):
                assert outcome.reason is Reason.ID_TOO_LONG
            else:
                assert isinstance(decode(outcome.value), Accepted)
