"""The corpus: secrets and lookalikes that the rules were not written from.

Secrets are made by seed from the patterns and the key words of credsweeper and detect-secrets as they are installed,
and stand where secrets stand: settings, program text, logs, commands, prose, structured content. Lookalikes are lines of
installed libraries that speak of secrets without one, and digests, ids, blanks, types and names made by seed. Nothing of
it is stored. A third of both, chosen by a hash, is held out.
"""

import base64
import hashlib
import importlib
import pkgutil
import random
import re
import string
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.secrets.patterns import generated

SEED = 20
_EACH = 3
_HELD_OUT = 3
_SHORTEST = 6
_ALNUM = string.ascii_letters + string.digits
_NO_CREDENTIAL = frozenset((
    "UUID", "Product Activation Key", "Firebase Domain", "AWS S3 Bucket", "Nonce", "Salt", "Tencent WeChat API App ID",
    "DOC_GET", "DOC_CREDENTIALS", "SECRET_PAIR", "PASSWD_PAIR", "IP_ID_PASSWORD_TRIPLE", "ID_PAIR_PASSWD_PAIR",
    "ID_PASSWD_PAIR",
))  # fmt: skip
"""Rules of credsweeper for what grants nothing by itself, and those for documents of people, which it runs on demand."""
_GENERIC = frozenset(("API", "Auth", "Credential", "Key", "Password", "Secret", "Token"))


class Sample(NamedTuple):
    kind: str
    text: str
    secret: str
    """What must not be found any more; empty in a lookalike."""
    content: dict[str, Any]
    """Of the event that carries it: the text, or the same in structured form."""

    @property
    def held_out(self) -> bool:
        return hashlib.sha256((self.kind + self.text).encode()).digest()[0] % _HELD_OUT == 0


def secrets(tools: Path) -> list[Sample]:
    rng = random.Random(SEED)
    return [
        *_of_patterns(_credsweeper(tools), rng),
        *_of_patterns(_detect_secrets(), rng),
        *_named(tools, rng),
        *_told(rng),
    ]


def lookalikes(tools: Path) -> list[Sample]:
    rng = random.Random(SEED + 1)
    return [*_lines(tools, rng), *_made(rng)]


# --- secrets -------------------------------------------------------------------------------------------------------


def _rules(tools: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((tools / "credsweeper/rules/config.yaml").read_text())
    return [rule for rule in found if rule["name"] not in _NO_CREDENTIAL]


def _credsweeper(tools: Path) -> Iterator[tuple[str, str]]:
    for rule in _rules(tools):
        if rule["type"] == "pattern":
            yield from ((f"credsweeper {rule['name']}", pattern) for pattern in rule["values"])


def _detect_secrets() -> Iterator[tuple[str, str]]:
    plugins = importlib.import_module("detect_secrets.plugins")
    for module in sorted(info.name for info in pkgutil.iter_modules(plugins.__path__)):
        for name, plugin in sorted(vars(importlib.import_module(f"detect_secrets.plugins.{module}")).items()):
            patterns = getattr(plugin, "denylist", None)
            if (
                not isinstance(plugin, type)
                or isinstance(patterns, property)
                or module in ("keyword", "ip_public", "private_key")
            ):
                continue
            if plugin.__module__.endswith(module) and isinstance(patterns, list | tuple):
                yield from ((f"detect-secrets {name}", one.pattern) for one in patterns)


_AROUND: list[Callable[[str], dict[str, Any]]] = [
    lambda text: {"text": text},
    lambda text: {"text": f"please use {text} for the deployment"},
    lambda text: {"output": f"2026-03-01T10:00:00Z INFO client ready\n{text}\ndone in 3 ms"},
    lambda text: {"arguments": {"value": text, "retries": 3}},
    lambda text: {"text": f"run this:\n\n```\n{text}\n```\n"},
    lambda text: {"lines": ["# settings", text, ""]},
]


def _of_patterns(patterns: Iterator[tuple[str, str]], rng: random.Random) -> Iterator[Sample]:
    for kind, pattern in patterns:
        for _ in range(_EACH):
            made = generated(pattern, rng)
            if made is None or len(made[1]) < _SHORTEST or _says_nothing(made[1]):
                continue
            text, secret = made
            content = rng.choice(_AROUND)(text)
            yield Sample(kind, _plain(content), secret, content)


def _says_nothing(secret: str) -> bool:
    """A generated value may come out as a blank to fill in."""
    return len(set(secret)) < 5 or "..." in secret


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(_plain(item) if len(value) == 1 else f"{key}: {_plain(item)}" for key, item in value.items())
    return "\n".join(map(_plain, value)) if isinstance(value, list) else str(value)


_WRITTEN: list[tuple[str, str]] = [
    ("env", "{KEY}={value}\nDEBUG=1"), ("export", "export {KEY}={value} && make"), ("export quoted", "export {KEY}='{value}'"),
    ("ini", "[service]\n{key} = {value}\nhost = db1"), ("yaml", "service:\n  {key}: {value}\n  port: 5432"),
    ("yaml quoted", "  {key}: \"{value}\""), ("json", '{{"host": "db1", "{key}": "{value}"}}'), ("python", '{key} = "{value}"'),
    ("python typed", '{key}: str = "{value}"'), ("call", 'connect(host="db1", {key}="{value}")'), ("flag", "deploy --{flag} {value} --force"),
    ("flag equals", "deploy --{flag}={value}"), ("javascript", "const {key} = '{value}';"), ("object", "{{ {key}: '{value}', port: 1 }}"),
    ("go", '{key} := "{value}"'), ("php", "'{key}' => '{value}',"), ("xml", "<config><{key}>{value}</{key}></config>"),
    ("attribute", '<add key="{key}" value="{value}"/>'), ("properties", "app.{key}={value}"), ("log", 'INFO request {{\\"{key}\\": \\"{value}\\"}}'),
    ("url", "GET https://api.example.org/v1?{key}={value}&page=2"), ("header", "X-{flag}: {value}"), ("block", "{key}: |\n  {value}\nnext: 1"),
]  # fmt: skip


def _named(tools: Path, rng: random.Random) -> Iterator[Sample]:
    keyword = importlib.import_module("detect_secrets.plugins.keyword")
    words = [word.replace("_?", "_") for word in keyword.DENYLIST if word.isascii()]
    words += [
        rule["name"].lower()
        for rule in _rules(tools)
        if rule["type"] == "keyword" and rule["name"] in _GENERIC - {"API", "Key"}
    ]
    words += ["api_key", "access_key", "aws_secret_access_key", "db_pass", "smtp_password", "auth_token"]
    for word in dict.fromkeys(words):
        for name, form in rng.sample(_WRITTEN, 9):
            value = _value(rng, name)
            text = form.format(key=word, KEY=word.upper(), flag=word.replace("_", "-"), value=value)
            yield Sample(f"named {name}", text, value, {"text": text})
        value = _value(rng, "")
        yield Sample("named structured", f'"{word}": "{value}"', value, {"settings": {word: value}})


def _value(rng: random.Random, form: str) -> str:
    signs = "" if form in ("url", "xml", "attribute", "header", "env", "export", "log") else "!@%^*+=_"
    length = rng.choice((10, 16, 24, 32, 40))
    value = rng.choice(string.ascii_letters) + rng.choice(string.digits)
    return value + "".join(rng.choice(_ALNUM + signs) for _ in range(length - 3)) + rng.choice(string.ascii_letters)


def _told(rng: random.Random) -> Iterator[Sample]:
    """What names no key: commands, statements, files of their own form, and odd letters."""
    forms = [
        "curl -u admin:{v} https://api.example.org/x", "mysql -u root -p{v} shop", "sshpass -p {v} ssh root@db1",
        "machine api.example.org login bot password {v}", "ALTER USER app WITH PASSWORD '{v}';",
        "CREATE USER app IDENTIFIED BY '{v}';", "postgres://app:{v}@db:5432/shop", "redis://:{v}@cache:6379/0",
        "Server=db1;User Id=sa;Password={v};", "docker login -u bot -p {v} registry.example.org",
        "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={b};EndpointSuffix=core.windows.net",
        "https://shop.blob.core.windows.net/c?sv=2022-11-02&se=2026-01-01&sp=r&sig={s}", '{{"auths": {{"r.io": {{"auth": "{b}"}}}}}}',
        "    client-key-data: {b}", "\uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff44={v}", "pass\u200bword={v}", "pwd={v}", "passwd: {v}",
        "hx_live_{h}",
    ]  # fmt: skip
    for form in forms:
        for _ in range(_EACH):
            value = "K7" + "".join(rng.choices(_ALNUM, k=14))
            encoded = base64.b64encode(rng.randbytes(48)).decode()
            signature = "".join(rng.choices(_ALNUM, k=40)) + "%3D"
            text = form.format(v=value, b=encoded, s=signature, h=(mine := "".join(rng.choices(_ALNUM + "-_", k=32))))
            secret = next(
                one
                for mark, one in (("{v}", value), ("{b}", encoded), ("{s}", signature), ("{h}", mine))
                if mark in form
            )
            yield Sample(f"form {form.split('{')[0].strip()[:24] or form[:12]}", text, secret, {"text": text})
    body = ["".join(rng.choices(_ALNUM + "+/", k=64)) for _ in range(6)]
    for label in ("RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"):
        lines = [f"-----BEGIN {label}-----", *body, f"-----END {label}-----"]
        yield Sample("key block", "\n".join(lines), body[3], {"text": "\n".join(lines)})
        yield Sample("key block as lines", "\n".join(lines), body[3], {"lines": lines})


# --- lookalikes ----------------------------------------------------------------------------------------------------

_SPEAKS = re.compile(r"(?i)pass(?:word|wd)|secret|token|api_?key|credential|auth|private_key")
_LITERAL = re.compile(r"[\"'`]|example|://")
_LINES = 240
_LINE = range(16, 160)


def _lines(tools: Path, rng: random.Random) -> list[Sample]:
    """Program text of libraries that names secrets and quotes nothing."""
    roots = [tools / name for name in ("credsweeper", "detect_secrets", "requests", "git", "urllib3", "cryptography")]
    roots += [
        Path(str(importlib.import_module(name).__file__)).parent
        for name in ("redis", "fastapi", "httpx", "uvicorn", "pydantic")
    ]
    lines = {
        line.strip()
        for root in roots
        for file in sorted(root.rglob("*.py"))
        for line in file.read_text(errors="replace").splitlines()
        if len(line.strip()) in _LINE and _SPEAKS.search(line) and not _LITERAL.search(line)
    }
    return [Sample("line of a library", line, "", {"text": line}) for line in rng.sample(sorted(lines), _LINES)]


def _made(rng: random.Random) -> Iterator[Sample]:
    def hexed(length: int) -> str:
        return "".join(rng.choices("0123456789abcdef", k=length))

    forms: dict[str, list[Callable[[], str]]] = {
        "digest": [
            lambda: f"sha256:{hexed(64)}", lambda: f"commit {hexed(40)}", lambda: f"{hexed(32)}  file.tar.gz", lambda: f"Already at {hexed(8)}..{hexed(8)}",
            lambda: f"--hash=sha256:{hexed(64)}", lambda: f'"integrity": "sha512-{base64.b64encode(rng.randbytes(64)).decode()}"',
            lambda: f"etag: W/\"{hexed(32)}\"", lambda: f"checksum = \"{hexed(64)}\"", lambda: f"image: app@sha256:{hexed(64)}",
        ],
        "id": [
            lambda: f"request_id={uuid.UUID(int=rng.getrandbits(128))}", lambda: f"user {uuid.UUID(int=rng.getrandbits(128))} logged in",
            lambda: f"trace {hexed(32)} span {hexed(16)}", lambda: f'"id": "{uuid.UUID(int=rng.getrandbits(128))}"',
            lambda: f"order-{rng.randrange(10**9)}", lambda: f"build {rng.randrange(10**6)} of pipeline {rng.randrange(10**9)}", lambda: f"cache_key={hexed(40)}",
        ],
        "blank": [
            lambda: "password: ${DB_PASSWORD}", lambda: "API_KEY=<your-api-key>", lambda: 'token = "YOUR_TOKEN_HERE"', lambda: "password={{ vault_password }}",
            lambda: "secret: ********", lambda: "DB_PASS=$DB_PASS", lambda: 'api_key="xxxxxxxxxxxx"', lambda: "token: null", lambda: "password=",
        ],
        "type": [
            lambda: "def login(user: str, password: str) -> Token:", lambda: "password: string;", lambda: "token: Optional[str] = None", lambda: "api_key: SecretStr",
            lambda: "private String password;", lambda: "secret: bytes", lambda: "access_token: string | null", lambda: "password VARCHAR(255) NOT NULL",
        ],
        "name": [
            lambda: '"token_type": "bearer"', lambda: "mysqld --password-file /run/secrets/db", lambda: "token_endpoint: https://id.example.org/token",
            lambda: f"max_tokens={rng.randrange(4096)}", lambda: f'"prompt_tokens": {rng.randrange(9999)}', lambda: "secret_name: db-credentials", lambda: "password_field = form.password",
            lambda: "tokenizer: cl100k_base", lambda: "token_expires_in: 3600", lambda: "password_policy: strict", lambda: "secretKeyRef:\n  name: db",
        ],
        "code": [
            lambda: "password = os.environ[name]", lambda: "token = request.headers.get(header)", lambda: "self.token = token", lambda: "secret = read_secret(path)",
            lambda: "if password != other_password:", lambda: "login(username=username, password=password)", lambda: "const token = await getToken();",
            lambda: "return self._api_key", lambda: "export TOKEN=$(vault read token)", lambda: "assert token is not None",
        ],
        "said": [
            lambda: "the password must have twelve characters", lambda: "please reset your password", lambda: "the token has expired", lambda: "invalid API key",
            lambda: "we rotate every secret each month", lambda: "error: password authentication failed for user app", lambda: "PASS: test_login (0.03s)",
            lambda: "WARNING: no credentials were found", lambda: "Enter your password:",
        ],
        "data": [
            lambda: f"data:image/png;base64,{base64.b64encode(rng.randbytes(60)).decode()}", lambda: f"ssh-rsa {base64.b64encode(rng.randbytes(96)).decode()} me@host",
            lambda: f"-----BEGIN CERTIFICATE-----\n{base64.b64encode(rng.randbytes(48)).decode()}\n-----END CERTIFICATE-----",
            lambda: f"drwxr-xr-x 2 root root 4096 {hexed(12)}", lambda: f"at 0x{hexed(12)} in module", lambda: f"2026-01-0{rng.randrange(1, 9)}T10:00:00.{rng.randrange(10**6):06}Z",
        ],
    }  # fmt: skip
    for kind, makers in forms.items():
        for text in dict.fromkeys(make() for make in makers for _ in range(_EACH)):
            yield Sample(kind, text, "", {"text": text})


def with_tools(tools: Path) -> None:
    if str(tools) not in sys.path:
        sys.path.append(str(tools))
