"""How every Kafka client of this pipeline reaches the cluster: its address, encryption, and who logs in.

Enters: a Java-style properties file, single properties, an address. Leaves: a `KafkaProfile`, in librdkafka's names.
Reads the files that the properties name. Fails: ProfileError, which names the property and what to write. No message
and no repr holds a value that may be a secret.
"""

import difflib
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from hmx_pipeline.topology import GROUP

ENVIRONMENT: Final = "HMX_KAFKA_"
CONFIG: Final = "HMX_KAFKA_CONFIG"
FAMILIES: Final = ("SECURITY_", "SASL_", "SSL_", "HTTPS_")
"""`HMX_KAFKA_` and one of these begins a property. Other names of that form are not ours: Kubernetes sets
HMX_KAFKA_PORT and more for a service that is called hmx-kafka."""
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
LOGIN_MODULES: Final = {
    "PLAIN": "Plain",
    "SCRAM-SHA-256": "Scram",
    "SCRAM-SHA-512": "Scram",
    "OAUTHBEARER": "OAuthBearer",
}
"""SASL mechanism → how the class of its JAAS login module begins."""
OTHER_NAMES: Final = {
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
"""Java's name, or another one of librdkafka → the one used here."""
NAMES: Final = frozenset(
    {
        "bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.username", "sasl.password", "ssl.ca.location",
        "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem",
        "ssl.key.password", "ssl.endpoint.identification.algorithm", "ssl.cipher.suites", "sasl.oauthbearer.method",
        "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.scope", "https.ca.location",
    }
)  # fmt: skip
JAVA_ONLY: Final = frozenset(
    {
        "sasl.jaas.config", "sasl.login.callback.handler.class", "ssl.truststore.type", "ssl.keystore.type",
        "ssl.keystore.location",
    }
)  # fmt: skip
OAUTH: Final = ("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret")
_OPTION: Final = r"""(\w+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s;"']+))(?=[\s;]|$)"""
"""Of a JAAS entry: its name, and its value in double quotes, in single ones or in none."""
Properties = dict[str, str]


class ProfileError(Exception):
    """The message is for the operator."""


@dataclass(frozen=True, slots=True)
class KafkaProfile:
    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """As librdkafka names them, but for the address; empty: PLAINTEXT."""
    group: str = GROUP
    """What consumers name."""

    @classmethod
    def of(cls, bootstrap: str, properties: Mapping[str, str], group: str = GROUP) -> Self:
        """Checked, and in one form, whichever names were used. The address goes before the properties'."""
        found = _checked(_canonical(properties))
        return cls(bootstrap, {name: value for name, value in found.items() if name != "bootstrap.servers"}, group)

    @property
    def protocol(self) -> str:
        return self.properties.get("security.protocol", "PLAINTEXT")

    @property
    def mechanism(self) -> str:
        return self.properties.get("sasl.mechanism", "")

    def __str__(self) -> str:
        """For messages: where, and as whom."""
        user = self.properties.get("sasl.username") or self.properties.get("sasl.oauthbearer.client.id")
        login = f", {self.mechanism} as {user!r}" if user else ""
        return self.bootstrap if self.protocol == "PLAINTEXT" else f"{self.bootstrap} ({self.protocol}{login})"

    def librdkafka(self) -> Properties:
        """The common part of a client's configuration."""
        return {"bootstrap.servers": self.bootstrap, **self.properties}

    def digest(self) -> str:
        """Another one where a property, or what a file of certificates or keys holds, has changed."""
        hashed = hashlib.sha256(repr((self.bootstrap, sorted(self.properties.items()))).encode())
        for name, value in sorted(self.properties.items()):
            if name.endswith(".location"):
                hashed.update(read(name, value).encode())
        return hashed.hexdigest()


def from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """HMX_KAFKA_SASL_USERNAME=… → sasl.username; with _FILE behind it, the value is what the file holds."""
    for variable, value in sorted(environ.items()):
        name = variable.removeprefix(ENVIRONMENT)
        if name != variable and name.startswith(FAMILIES):
            known = name.removesuffix("_FILE").lower().replace("_", ".")
            file = name.endswith("_FILE")
            yield known, read_secret(variable, value) if file else _resolved(known, value, environ)


def securing(environ: Mapping[str, str]) -> set[str]:
    """The variables that say how to reach a secured cluster."""
    return {name for name in environ if name == CONFIG or name.startswith(tuple(ENVIRONMENT + one for one in FAMILIES))}


def load_properties(path: str, environ: Mapping[str, str]) -> Properties:
    """The file's properties, single ones on top, with what their values refer to. The files are read each time."""
    written = parse(read(CONFIG, path)) if path else {}
    singles = dict(from_environment(environ))
    try:
        found = _canonical({name: _resolved(name, value, environ) for name, value in written.items()
                            if name not in singles})  # fmt: skip
    except ProfileError as error:
        raise ProfileError(f"{path}: {error}") from None
    return found | _canonical(singles)


def parse(text: str) -> Properties:
    """As java.util.Properties reads it."""
    found: Properties = {}
    for line in _logical_lines(text):
        parts = re.fullmatch(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", line, re.DOTALL)
        assert parts is not None, "any line fits"
        found[_unescaped(parts[1])] = _unescaped(parts[2])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """A backslash at the end of a line joins the next one to it, but not to a comment."""
    held: str | None = None
    for natural in re.split(r"\r\n?|\n", text):
        line = natural.lstrip(" \t\f")
        if held is None and (not line or line[0] in "#!"):
            continue
        line = (held or "") + line
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        held = line[:-1] if goes_on else None
        if not goes_on:
            yield line
    if held:
        yield held


def _unescaped(text: str) -> str:
    short = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", lambda m: chr(int(m[1], 16)) if m[1] else short.get(m[2], m[2]), text)


def _resolved(name: str, value: str, environ: Mapping[str, str]) -> str:
    """`${file:/path}`, `${file:/path:key}`, `${directory:/path:key}` and `${env:NAME}`, as Kafka's own providers."""

    def referred(found: re.Match[str]) -> str:
        provider, (path, _, key) = found[1], found[2].partition(":")
        if provider == "env":
            if path not in environ:
                raise ProfileError(f"{name}: the variable {path} is not set")
            return environ[path]
        if provider == "directory":
            return read(name, f"{path}/{key}").strip()
        if provider != "file":
            raise ProfileError(f"{name}: ${{{provider}:…}} is not known: write ${{file:/path}}, ${{file:/path:key}}, "
                               "${directory:/path:key} or ${env:NAME}")  # fmt: skip
        content = read(name, path)
        if not key:
            return content.strip()
        if key not in (entries := parse(content)):
            raise ProfileError(f"{name}: {path} has no entry {key!r}")
        return entries[key]

    return re.sub(r"\$\{(\w+):([^}]*)\}", referred, value)


def read(name: str, path: str) -> str:
    """The text of a file that a property or variable names. What may be a secret in a path's place is not shown."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text: certificates and keys are given as PEM"
        shown = f"{path}: " if path.isprintable() and not path.lstrip().startswith("-----") else ""
        raise ProfileError(f"{name}: {shown}{why}") from None


def read_secret(variable: str, path: str) -> str:
    """As `read`, of a `_FILE` variable. Its path is never shown: the secret itself is written there by mistake."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "its file is no text"
        raise ProfileError(f"{variable}: {why}: set it to the path of a file that holds the secret") from None


def _canonical(given: Mapping[str, str]) -> Properties:
    """One source's properties in one vocabulary; of a JAAS entry only the module stays. Raises ProfileError for what is
    not known, or said twice."""
    found: Properties = {}
    for name, value in given.items():
        known = OTHER_NAMES.get(name, name)
        if known not in NAMES | JAVA_ONLY:
            near = difflib.get_close_matches(name, [*NAMES, *JAVA_ONLY, *OTHER_NAMES], 1)
            hint = f"did you mean {near[0]}?" if near else "remove it; docs/how-to/secure.md lists what is known"
            raise ProfileError(f"{name}: no property that is supported here: {hint}")
        if found.get(known, value) != value:
            raise ProfileError(f"{name} and {known} are two names of one property and differ: keep one of them")
        found[known] = value
    for store, kept in (("truststore", "ssl.ca.location"), ("keystore", "ssl.keystore.location")):
        kind = found.pop(f"ssl.{store}.type", "PEM").upper()
        if kind != "PEM" or found.get(kept, "").endswith((".jks", ".p12", ".pfx")):
            raise ProfileError(
                f"ssl.{store}.type: {kind} stores can't be read, PEM can. Write ssl.{store}.type=PEM, and make the file"
                f" of a PKCS12 store so: openssl pkcs12 -in {store}.p12 -nodes -out {store}.pem"
            )
    if keystore := found.pop("ssl.keystore.location", ""):
        found |= {"ssl.certificate.location": keystore, "ssl.key.location": keystore}
    handler = found.pop("sasl.login.callback.handler.class", "OAuthBearerLoginCallbackHandler")
    if not handler.endswith("OAuthBearerLoginCallbackHandler"):
        raise ProfileError(
            "sasl.login.callback.handler.class: only Kafka's OAuthBearerLoginCallbackHandler is supported"
        )
    if jaas := found.pop("sasl.jaas.config", ""):
        _add_login(found, jaas)
    return found


def _add_login(found: Properties, jaas: str) -> None:
    """From the entry of a login module: `….ScramLoginModule required username="…" password="…";`"""
    module = re.match(r"\s*(?:\w+\.)*(\w+)LoginModule\s+required\b(.*)", jaas, re.DOTALL)
    if module is None:
        raise ProfileError('sasl.jaas.config: write …LoginModule required username="…" password="…";')
    found["sasl.jaas.config"] = f"{module[1]}LoginModule required;"
    if re.fullmatch(rf"(?:\s+{_OPTION})*\s*;?\s*", module[2], re.DOTALL) is None:
        raise ProfileError(
            "sasl.jaas.config: an option can't be read: write name=\"value\" or name='value', with a backslash before"
            " the same quote and before a backslash in it, and ; at the end"
        )
    names = {"username": "sasl.username", "password": "sasl.password", "clientId": OAUTH[1], "clientSecret": OAUTH[2],
             "scope": "sasl.oauthbearer.scope"}  # fmt: skip
    for option, double, single, bare in re.findall(_OPTION, module[2], re.DOTALL):
        if option not in names:  # it is not shown: it may be a piece of a password that lacks its quotes
            raise ProfileError(
                f"sasl.jaas.config: only these options are supported: {', '.join(names)}. Remove the rest"
            )
        value = _unescaped(double or single) or bare
        if found.setdefault(names[option], value) != value:
            raise ProfileError(f"{names[option]} and {option} in sasl.jaas.config differ: keep one of them")


def _checked(found: Properties) -> Properties:
    """Raises ProfileError where something lacks, or where two properties contradict each other."""
    secured = [name for name in found if name.startswith(("sasl.", "ssl."))]
    if "security.protocol" not in found and secured:
        wanted = ("SASL_" if any(name.startswith("sasl.") for name in secured) else "") + "SSL"
        raise ProfileError(f"{secured[0]} is set, but without security.protocol nothing is secured: write "
                           f"security.protocol={wanted}")  # fmt: skip
    protocol = found.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise ProfileError(f"security.protocol={protocol}: write {', '.join(PROTOCOLS[:-1])} or {PROTOCOLS[-1]}")
    found = {**found, "security.protocol": protocol} if "security.protocol" in found else found
    for family, needs in (("sasl.", "SASL_SSL"), ("ssl.", "SASL_SSL" if protocol.startswith("SASL") else "SSL")):
        used = next((name for name in secured if name.startswith(family)), None)
        if used and family[:-1].upper() not in protocol.split("_"):
            raise ProfileError(
                f"{used} has no effect with security.protocol={protocol}: write security.protocol={needs}, or remove it"
            )
    if protocol.startswith("SASL"):
        _check_login(found)
    if protocol.endswith("SSL"):
        _check_certificates(found)
    return found


def _check_login(found: Properties) -> None:
    mechanism = found.get("sasl.mechanism", "")
    if module := found.pop("sasl.jaas.config", "").partition("LoginModule")[0]:
        fitting = [one for one, name in LOGIN_MODULES.items() if name == module]
        if mechanism not in fitting:
            raise ProfileError(
                f"sasl.jaas.config is of {module}LoginModule, sasl.mechanism is {mechanism or 'not set'}:"
                f" write sasl.mechanism={' or '.join(fitting) or 'SCRAM-SHA-512'}"
            )
    if mechanism not in LOGIN_MODULES:
        raise ProfileError(f"sasl.mechanism={mechanism}: write {', '.join(LOGIN_MODULES)}")
    oauth = mechanism == "OAUTHBEARER"
    needed = OAUTH if oauth else ("sasl.username", "sasl.password")
    for name in needed:
        if not found.get(name):
            raise ProfileError(f"{name} is missing: {mechanism} needs {', '.join(needed)}")
    foreign = next((name for name in found if name.startswith("sasl.oauthbearer.") != oauth and name in
                    {*OAUTH, "sasl.oauthbearer.scope", "sasl.username", "sasl.password"}), None)  # fmt: skip
    if foreign:
        raise ProfileError(f"{foreign} has no effect with sasl.mechanism={mechanism}: remove one of them")
    if oauth and found.setdefault("sasl.oauthbearer.method", "oidc") != "oidc":
        raise ProfileError("sasl.oauthbearer.method: only oidc is supported, client credentials at a token endpoint")
    if oauth and not found[OAUTH[0]].startswith(("https://", "http://")):
        raise ProfileError(f"{OAUTH[0]}: write the whole address, https://…")


def _check_certificates(found: Properties) -> None:
    for what in ("ca", "certificate", "key"):
        if {f"ssl.{what}.location", f"ssl.{what}.pem"} <= found.keys():
            raise ProfileError(f"ssl.{what}.location and ssl.{what}.pem say the same: keep one of them")
        if (name := f"ssl.{what}.location") in found:
            read(name, found[name])
    own = {what for what in ("certificate", "key") if any(name.startswith(f"ssl.{what}.") and name != "ssl.key.password"
                                                          for name in found)}  # fmt: skip
    if len(own) == 1:
        lacking = ({"certificate", "key"} - own).pop()
        raise ProfileError(f"ssl.{lacking}.location is missing: a client certificate needs both, and its key")
    identified = found.get("ssl.endpoint.identification.algorithm", "https").lower()
    if identified not in ("https", "none", ""):
        raise ProfileError("ssl.endpoint.identification.algorithm: write https, or none to accept any host name")
    found["ssl.endpoint.identification.algorithm"] = identified or "none"
