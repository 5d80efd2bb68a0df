"""Each kind of credential is found by its shape, and by the names beside it in whatever form; what names a type, a file or
a blank is left."""

import random
import re
import string
from typing import Any

import pytest

from hmx_pipeline.intake.decode import Accepted, decode
from hmx_pipeline.intake.scan import REDACTED
from hmx_pipeline.intake.secret_kinds import KINDS, SecretKind
from hmx_pipeline.intake.secret_names import is_blank, is_code, is_keyed, is_mixed, is_random, is_sentence
from tests.support.events import encoded, event

_LETTERS = {
    "a": string.ascii_letters + string.digits, "h": "0123456789abcdef", "d": string.digits, "u": string.ascii_uppercase + string.digits,
    "U": string.ascii_uppercase + "234567", "l": string.ascii_lowercase + string.digits, "w": string.ascii_letters + string.digits,
}  # fmt: skip
V = "Zq7Xw2Lk9Tb4Vn8Rc5Jm"
SECRETLINT = (
    "1password", "aws", "azure", "cloudflare", "databricks", "docker", "figma", "github", "gitlab", "grafana", "groq", "vault",
    "huggingface", "linear", "notion", "npm", "openai", "sendgrid", "shopify", "slack", "stripe", "tailscale", "vercel",
)  # fmt: skip
"""Its rules that know credentials by their shape."""
SECRETLINT_FORMS = [
    "sk-ant-api03-{}", "https://bot:{}@example.org/", "mongodb+srv://app:{}@db/shop", '"private_key": "{}"', "-----BEGIN PRIVATE KEY-----\n{}",
    "ETH_PRIVATE_KEY=0x{}",
]  # fmt: skip
"""Its other rules: basicauth, database-connection-string, gcp, privatekey, secp256k1-privatekey."""


def spelled(template: str) -> str:
    """With a digit at every fourth place, so that none of it looks like a word."""
    rng = random.Random(template)

    def made(match: re.Match[str]) -> str:
        letters = _LETTERS[match[1]]
        digits = [c for c in letters if c.isdigit()]
        return "".join(rng.choice(digits if at % 4 == 2 else letters) for at in range(int(match[2])))

    return re.sub(r"<([a-zA-Z])([0-9]+)>", made, template)


def redacted(**content: Any) -> Any:
    outcome = decode(encoded(event(content=content)))
    assert isinstance(outcome, Accepted), outcome
    return outcome.fields["content"]


class TestKinds:
    @pytest.mark.parametrize("kind", KINDS, ids=[kind.id for kind in KINDS])
    def test_by_their_example_are_found_and_a_lookalike_is_not(self, kind: SecretKind) -> None:
        example, counter = spelled(kind.example), spelled(kind.counter)
        assert example not in redacted(text=f"see {example} there")["text"]
        assert redacted(text=f"see {counter} there")["text"] == f"see {counter} there"

    @pytest.mark.parametrize("kind", KINDS, ids=[kind.id for kind in KINDS])
    def test_hold_one_of_their_keywords(self, kind: SecretKind) -> None:
        assert not kind.keywords or any(
            re.search(word.removeprefix("~"), spelled(kind.example)) for word in kind.keywords.split()
        )

    def test_include_those_that_secretlint_knows(self) -> None:
        assert not [name for name in SECRETLINT if not any(kind.id.startswith(name) for kind in KINDS)]

    @pytest.mark.parametrize("text", SECRETLINT_FORMS)
    def test_of_secretlint_that_have_no_shape_of_their_own_are_found_by_their_names(self, text: str) -> None:
        assert V not in redacted(text=text.format(V))["text"]

    def test_have_names_of_their_own(self) -> None:
        assert len({kind.id for kind in KINDS}) == len(KINDS)


FOUND = [
    "aws_secret_access_key = {}", "DB_PASS={}", "pwd={}", "passwd={}", "passwd: {}", "AccountKey={};EndpointSuffix=x",
    "https://a.blob.core.windows.net/c?sv=2022&se=2026&sig={}", "curl -u admin:{} https://x.example", "mysql -u root -p{} shop",
    "ALTER USER app WITH PASSWORD '{}';", "CREATE USER a IDENTIFIED BY '{}'", "the item password '{}'", "password: |\n  {}\nnext: 1", "<password>{}</password>",
    '<add key="DbPassword" value="{}"/>', "machine h login n password {}", "sshpass -p {} ssh h", "docker login -u n -p {} r.io",
    "\uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff44={}", "pass\u200bword={}", '"password"\uff1a"{}"', 'password: str = "{}"', "redis://:{}@cache:6379/0",
    "--db-password '{}'", "X-Auth-Token: {}", "kubectl --token={}", "client-key-data: {}", "_auth = {}", "signing_key: {}",
    "user:me password:{} host:h", "\uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff44\uff1a{}",
    "postgres://app:p@ss{}@db:5432/shop", "postgres://app:ab/{}=@db/shop", "rediss://:{}/x@cache/0", "amqp://a:{}@mq//v",
    "- name: DB_PASSWORD\n  value: {}", '- name: API_TOKEN\n  value: "{}"', "name: API_TOKEN, value: {}", "key: password\nvalue: {}",
    "ENV DB_PASSWORD {}", "setx API_KEY {}", "aws configure set aws_secret_access_key {}", "npm config set //r.io/:_authToken {}",
    "keytool -storepass {} -alias x", "SSHPASS={} sshpass -e ssh h", "| password | {} |", "| API token | `{}` |", "password\t{}", "password -> {}",
    "Password - {}", "password := `{}`", 'let password: &str = "{}";', 'user.setPassword("{}")', "b.withPassword('{}')",
    'requests.get(url, auth=("u", "{}"))', "HTTPBasicAuth('u', '{}')", "echo {} | sudo -S apt update", "echo 'root:{}' | sudo chpasswd",
    "echo {} | docker login -u u --password-stdin r.io", "az login --service-principal -u u -p {} -t t", "sqlcmd -S h -U sa -P {}", "zip -P {} a.zip f",
    "7z x a.7z -p{}", "cqlsh -u u -p {}", "http -a user:{} https://x.org", "requirepass {}", "masterauth {}", "username admin, password {}",
    "das Passwort f\u00fcr die Datenbank ist {}.", "Kennwort: {}", "le mot de passe est {}", "Mot de passe : {}", "la contrase\u00f1a es {}", "contrase\u00f1a: {}",
    "a senha \u00e9 {}", "senha={}", "\u6570\u636e\u5e93\u7684\u5bc6\u7801\u662f {}", "\u5bc6\u7801\uff1a{}", "\u5bc6\u78bc: {}", "\u53e3\u4ee4\uff1a{}",
    "\u30d1\u30b9\u30ef\u30fc\u30c9\u306f{}\u3067\u3059", "\u30d1\u30b9\u30ef\u30fc\u30c9\uff1a{}",
    "pass\u2066word={}", "pass\ufe0fword={}", "pass\u034fword={}", "pass\U000e0020word={}", "\u24df\u24d0\u24e2\u24e2\u24e6\u24de\u24e1\u24d3={}",
    "kind: Secret\ndata:\n  config: {}\n  more: x", "data:\n  config: {}\nkind: Secret",
]  # fmt: skip
LEFT = [
    '"token_type": "bearer"', "mysqld --password-file /run/secrets/db", "def login(user: str, password: str) -> Token:",
    "password: string;", "token: Optional[str] = None", "api_key: SecretStr", "API_KEY=<your-api-key>", "password={{ vault_password }}",
    "PWD=/home/me/project", "self.token = token", "login(username=username, password=password)", "PASS: test_login (0.03s)",
    "DB_PASS=$DB_PASS", "tokenizer: cl100k_base", "sha256:" + "0123456789abcdef" * 4, "sk-estimator-doc-link", "token_endpoint: https://id.example.org/token",
    "Source(secrets_dir=_secrets_dir or self.secrets_dir)", "secret:my-app-config", "kwargs['password'] = settings_dict['PASSWORD']", "passwd = conn_params.get('password', '')",
    "FATAL: Can't locate revision identified by 'ae1027a6acf3'", "no resource identified by \"a1f0-22\" was found",
    "see http://localhost:5173/@vite/client", "https://h:${PORT}/@scope/x", "npm i https://registry.example.org:8443/@scope/pkg", "mail a@b.org, https://x.org:443",
    "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef: x", "- name: DB_PASSWORD\n  value: $(OTHER)", "| password | string | required |", "| token | OAuth2 |",
    'form.setPassword("Enter your password")', "kind: ConfigMap\ndata:\n  config: abcdef", "echo done | sudo tee /etc/x", "the password - at least 8 characters",
    "Passwort: mindestens 8 Zeichen", "das Passwort ist 8-stellig", "le mot de passe est obligatoire", "la contrase\u00f1a es incorrecta", "\u5bc6\u7801\uff1a\u5fc5\u586b",
    "used for the username and password quoting", "\u30d1\u30b9\u30ef\u30fc\u30c9\u306f8\u6587\u5b57\u4ee5\u4e0a", "a senha foi alterada em 2024", "zip -r a.zip src", "ENV PASSWORD_FILE /run/secrets/x",
]  # fmt: skip


class TestNames:
    @pytest.mark.parametrize("form", FOUND)
    def test_show_secrets_in_whatever_form(self, form: str) -> None:
        assert V not in str(redacted(text=form.format(V)))
        assert V not in str(redacted(text="first line\n" + form.format(V) + "\nlast line"))

    @pytest.mark.parametrize("text", LEFT)
    def test_of_types_files_and_blanks_show_none(self, text: str) -> None:
        assert redacted(text=text) == {"text": text}

    @pytest.mark.parametrize("label", ["PRIVATE KEY", "RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK"])
    @pytest.mark.parametrize("end", ["", "\n"])
    def test_of_keys_in_lists_of_lines(self, label: str, end: str) -> None:
        lines = [
            f"{line}{end}"
            for line in ("before", f"-----BEGIN {label}-----", V * 3, V, f"-----END {label}-----", "after")
        ]
        assert redacted(lines=lines)["lines"] == [f"before{end}", f"{REDACTED}{end}", f"after{end}"]

    def test_of_options_in_lists_of_arguments(self) -> None:
        assert redacted(argv=["deploy", "--password", V, "--force"])["argv"] == [
            "deploy",
            "--password",
            REDACTED,
            "--force",
        ]

    def test_of_headers_in_lists_of_pairs(self) -> None:
        headers = [["X-Api-Key", V], ["cookie", f"a={V}; b=c"], ["token", "expired"], ["password", "must not be empty"]]
        assert redacted(headers=headers)["headers"] == [["X-Api-Key", REDACTED], ["cookie", REDACTED], *headers[2:]]

    def test_of_docker_and_kubernetes_in_objects(self) -> None:
        found = redacted(
            auths={"r.io": {"auth": V * 2}}, user={"client-key-data": V, "token": V}, pass_count=3, passed=True
        )
        assert found == {
            "auths": {"r.io": {"auth": REDACTED}}, "user": {"client-key-data": REDACTED, "token": REDACTED}, "pass_count": 3, "passed": True,
        }  # fmt: skip


class TestHostileValues:
    @pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.id)
    def test_a_keyword_that_is_tried_from_each_of_its_letters_has_an_end(self, kind: SecretKind) -> None:
        assert re.search(r",\}|\][+*]", kind.keywords) is None

    @pytest.mark.parametrize(
        "part", ["add a", "your", "/a", "a.", "a_", "-a", "x" * 7, "<a ", "A1", "a b ", "${", "((", "\\u", "\u200b"]
    )
    @pytest.mark.parametrize(
        "ask", [is_blank, is_code, is_mixed, is_random, is_sentence, lambda value: is_keyed("key", value)]
    )
    def test_are_judged_in_linear_time(self, part: str, ask: Any) -> None:
        ask(part * 40 + "!")
        ask(part * (100_000 // len(part)) + "!")

    @pytest.mark.parametrize(
        "part",
        ["a_key=", "curl -u ", "mysql -p ", "pass: |\n  ", "<token ", "identified by '", "?sig=", "eyJa.", "client_key: ", "AKIA", "glpat-",
         "\uff54oken\u200b ", "setenv('token', ", "Pass", "basic ", "https://a@", "key:", "auth ", "PASSWORD ", "eyJabcd=", "QWERTZ"],
    )  # fmt: skip
    def test_are_looked_for_in_a_time_that_grows_with_the_text(self, part: str) -> None:
        redacted(text=part * (150_000 // len(part)), password="x1")
