"""Kafka clients' properties: read as Java reads them, the same for both clients; mistakes named, no secret shown."""

import ssl
from pathlib import Path

import pytest

from hmx_pipeline.kafka_profile import KafkaProfile, ProfileError, from_environment, load_properties, parse
from hmx_pipeline.settings import Settings, SettingsError
from hmx_pipeline.worker.credentials import credentials

SECRET = "Zq7Xw2Lk9-of-no-use"
PIECE = SECRET[:8]
SCRAM = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
LOGIN = {**SCRAM, "sasl.username": "bob", "sasl.password": SECRET}


def test_a_properties_file_is_read_as_java_reads_it() -> None:
    text = (
        "# a comment\n! another\n\n  security.protocol = SASL_SSL\nsasl.mechanism:PLAIN\nsasl.username bob\n"
        "sasl.password=a=b:c\\\n    d\\u0041\\ttab # kept\nssl.key.password=ends in \\\\\nkey\\ with\\=signs=1\nempty\n"
    )
    assert parse(text) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "bob",
        "sasl.password": "a=b:cdA\ttab # kept",
        "ssl.key.password": "ends in \\",
        "key with=signs": "1",
        "empty": "",
    }


def test_values_come_from_files_and_variables(tmp_path: Path) -> None:
    (tmp_path / "whole").write_text(f"{SECRET}\n")
    (tmp_path / "entries").write_text(f"user=bob\npassword={SECRET}\n")
    file = tmp_path / "kafka.properties"
    file.write_text(
        f"ssl.key.password=${{file:{tmp_path}/whole}}\nsasl.oauthbearer.client.id=${{file:{tmp_path}/entries:user}}\n"
        f"sasl.password=${{directory:{tmp_path}:whole}}\n"
        "bootstrap.servers=x-${env:PART}-y\nsasl.username=overwritten\n"
    )
    found = load_properties(str(file), {"PART": "part", "HMX_KAFKA_SASL_USERNAME": "single"})
    assert found == {
        "ssl.key.password": SECRET,
        "sasl.oauthbearer.client.id": "bob",
        "sasl.password": SECRET,
        "bootstrap.servers": "x-part-y",
        "sasl.username": "single",
    }


def test_single_properties_come_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    given = {
        "HMX_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "HMX_KAFKA_SASL_MECHANISM": "PLAIN",
        "HMX_KAFKA_SASL_USERNAME": "bob",
        "HMX_KAFKA_SASL_PASSWORD_FILE": str(tmp_path / "secret"),
        "HMX_KAFKA_BOOTSTRAP": "kafka:9093",
        "HMX_KAFKA_PORT": "tcp://10.0.0.1:9092",  # as Kubernetes sets it for a service called hmx-kafka
        "HMX_KAFKA_SERVICE_HOST": "10.0.0.1",
    }
    assert len(dict(from_environment(given))) == 4
    kafka = Settings.load({**given, "HMX_STATE": str(tmp_path)}).require_kafka()
    assert kafka.librdkafka() == {
        "bootstrap.servers": "kafka:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "bob",
        "sasl.password": SECRET,
        "ssl.endpoint.identification.algorithm": "https",
    }


def test_the_file_names_the_brokers_unless_the_environment_does(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text("bootstrap.servers=from-file:9093\nsecurity.protocol=SSL\n")
    given = {"HMX_STATE": str(tmp_path), "HMX_KAFKA_CONFIG": str(file)}
    assert Settings.load(given).require_kafka().bootstrap == "from-file:9093"
    assert Settings.load({**given, "HMX_KAFKA_BOOTSTRAP": "b:1"}).require_kafka().bootstrap == "b:1"


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"sasl.username": "bob"}, "without security.protocol nothing is secured: write security.protocol=SASL_SSL"),
        ({"ssl.cipher.suites": "x"}, "write security.protocol=SSL"),
        ({"security.protocol": "TLS"}, "security.protocol=TLS: write PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
        ({"security.protocol": "SSL", "sasl.username": "bob"}, "sasl.username has no effect .*=SASL_SSL, or remove it"),
        ({**LOGIN, "security.protocol": "SASL_PLAINTEXT", "ssl.cipher.suites": "x"}, "ssl.cipher.suites has no effect"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism=: write PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
        ({**SCRAM, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism=GSSAPI: write"),
        ({**SCRAM, "sasl.username": "bob"}, "sasl.password is missing: SCRAM-SHA-512 needs sasl.username, sasl.pass"),
        ({**LOGIN, "sasl.oauthbearer.scope": "k"}, "sasl.oauthbearer.scope has no effect with sasl.mechanism=SCRAM"),
        ({**LOGIN, "sasl.mechanism": "OAUTHBEARER"}, "sasl.oauthbearer.token.endpoint.url is missing"),
        ({**LOGIN, "sasl.pasword": "x"}, "sasl.pasword: no property .* did you mean sasl.password"),
        ({**LOGIN, "max.poll.records": "5"}, "max.poll.records: no property that is supported here: remove it"),
        ({**LOGIN, "sasl.mechanisms": "PLAIN"}, "sasl.mechanisms and sasl.mechanism are two names .* keep one"),
        (
            {**LOGIN, "ssl.truststore.type": "JKS", "ssl.truststore.location": "t.jks"},
            "PEM can. Write ssl.truststore.t",
        ),
        ({**LOGIN, "ssl.truststore.location": "/t.p12"}, "openssl pkcs12 -in truststore.p12"),
        ({**LOGIN, "ssl.ca.location": "/absent/ca.pem"}, "ssl.ca.location: /absent/ca.pem: No such file"),
        ({**LOGIN, "ssl.certificate.pem": "x"}, "ssl.key.location is missing"),
        ({**LOGIN, "ssl.endpoint.identification.algorithm": "htps"}, "write https, or none"),
        ({**LOGIN, "sasl.jaas.config": f"nonsense {SECRET}"}, "sasl.jaas.config: write …LoginModule required"),
        (
            {**SCRAM, "sasl.jaas.config": f'a.b.PlainLoginModule required username="b" password="{SECRET}";'},
            "is of PlainLoginModule, sasl.mechanism is SCRAM-SHA-512: write sasl.mechanism=PLAIN",
        ),
        (
            {**LOGIN, "sasl.jaas.config": f'a.ScramLoginModule required username="eve" password="{SECRET}";'},
            "sasl.username and username in sasl.jaas.config differ",
        ),
    ],
)
def test_a_mistake_is_named_with_what_to_write(properties: dict[str, str], says: str) -> None:
    with pytest.raises(ProfileError, match=says) as raised:
        KafkaProfile.of("kafka:9093", properties)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("${file:/absent}", "sasl.password: /absent: No such file"),
        ("${file:FILE:absent}", "has no entry 'absent'"),
        ("${env:ABSENT}", "sasl.password: the variable ABSENT is not set"),
        ("${vault:path}", r"sasl.password: \$\{vault:…\} is not known: write"),
    ],
)
def test_a_reference_that_leads_nowhere_is_named(tmp_path: Path, value: str, says: str) -> None:
    (tmp_path / "entries").write_text(f"password={SECRET}")
    with pytest.raises(ProfileError, match=says) as raised:
        load_properties("", {"HMX_KAFKA_SASL_PASSWORD": value.replace("FILE", f"{tmp_path}/entries")})
    assert SECRET not in str(raised.value)


def test_no_secret_is_shown(tmp_path: Path) -> None:
    given = {f"HMX_KAFKA_{name.upper().replace('.', '_')}": value for name, value in LOGIN.items()}
    secret = {"HMX_REDIS_URL": f"redis://u:{SECRET}@h:1/0", "HMX_REDIS_PASSWORD": SECRET, "HMX_CONTROL_KEY": SECRET}
    made = Settings.load({**given, **secret, "HMX_KAFKA_BOOTSTRAP": "k:1", "HMX_STATE": str(tmp_path)})
    kafka = made.require_kafka()
    for shown in (repr(made), str(made), repr(kafka), str(kafka), made.credentials()):
        assert SECRET not in shown
    assert str(kafka) == "k:1 (SASL_SSL, SCRAM-SHA-512 as 'bob')"


def test_both_clients_check_host_names_unless_told_otherwise() -> None:
    for said, checked in (({}, True), ({"ssl.endpoint.identification.algorithm": ""}, False)):
        kafka = KafkaProfile.of("kafka:9093", {**LOGIN, **said})
        context = credentials(kafka).ssl_context  # type: ignore[union-attr]
        assert context.check_hostname == checked
        assert context.verify_mode == ssl.CERT_REQUIRED
        assert kafka.librdkafka()["ssl.endpoint.identification.algorithm"] == ("https" if checked else "none")


def test_without_properties_nothing_is_secured() -> None:
    kafka = KafkaProfile.of("kafka:9092", {})
    assert kafka.librdkafka() == {"bootstrap.servers": "kafka:9092"}
    assert credentials(kafka) is None


def test_what_logs_in_has_another_digest_once_a_file_was_replaced(tmp_path: Path) -> None:
    secret, ca = tmp_path / "secret", tmp_path / "ca.pem"
    secret.write_text(SECRET)
    ca.write_text("one")
    given = {f"HMX_KAFKA_{name.upper().replace('.', '_')}": value for name, value in LOGIN.items()}
    del given["HMX_KAFKA_SASL_PASSWORD"]
    given |= {"HMX_KAFKA_SASL_PASSWORD_FILE": str(secret), "HMX_KAFKA_SSL_CA_LOCATION": str(ca)}
    given |= {"HMX_REDIS_PASSWORD_FILE": str(secret), "HMX_STATE": str(tmp_path), "HMX_KAFKA_BOOTSTRAP": "k:1"}
    digests = [Settings.load(given).credentials()]
    assert Settings.load(given).credentials() == digests[0]
    ca.write_text("two")
    digests.append(Settings.load(given).credentials())
    secret.write_text("another")
    digests.append(Settings.load(given).credentials())
    assert len(set(digests)) == 3


def test_a_secret_setting_may_stand_in_a_file(tmp_path: Path) -> None:
    file, given = tmp_path / "key", {"HMX_STATE": str(tmp_path), "HMX_CONTROL_KEY_FILE": str(tmp_path / "key")}
    with pytest.raises(SettingsError, match="HMX_CONTROL_KEY_FILE: No such file"):
        Settings.load(given)
    file.write_text(f"{SECRET}\n")
    assert Settings.load(given).control_key == SECRET
    with pytest.raises(SettingsError, match="HMX_CONTROL_KEY and HMX_CONTROL_KEY_FILE are both set"):
        Settings.load({**given, "HMX_CONTROL_KEY": "x"})


def test_https_needs_certificate_and_key() -> None:
    with pytest.raises(SettingsError, match="HMX_TLS_KEY is not set"):
        Settings(tls_certificate="c.pem")


@pytest.mark.parametrize(
    ("name", "port"), [("SERVICE", 80_800), ("WORKER", 0), ("MATERIALISER", -1), ("SOURCE", 65_536)]
)
def test_a_port_is_one(name: str, port: int) -> None:
    with pytest.raises(SettingsError, match=f"HMX_{name}_PORT={port} is no port"):
        Settings(**{f"{name.lower()}_port": port})
    assert Settings(source_port=0).source_port == 0


def test_what_is_wrong_in_the_file_of_properties_names_it(tmp_path: Path) -> None:
    file, given = tmp_path / "kafka.properties", {"HMX_STATE": str(tmp_path), "HMX_KAFKA_BOOTSTRAP": "k:1"}
    for text in ("no.such=1", "security.protocol=NONE", "sasl.username=${env:ABSENT}"):
        file.write_text(text)
        with pytest.raises(SettingsError, match=str(file)):
            Settings.load({**given, "HMX_KAFKA_CONFIG": str(file)}).require_kafka()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HMX_KAFKA_SSL_KEY_LOCATION", f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n"),
        ("HMX_KAFKA_SSL_KEY_LOCATION", f"-----BEGIN PRIVATE KEY-----{SECRET}"),
        ("HMX_KAFKA_CONFIG", f"sasl.username=bob\nsasl.password={SECRET}"),
        ("HMX_KAFKA_SASL_PASSWORD_FILE", SECRET),
        ("HMX_KAFKA_SASL_PASSWORD_FILE", f"a:{SECRET}\0"),
        ("HMX_CONTROL_KEY_FILE", SECRET),
        ("HMX_REDIS_PASSWORD_FILE", SECRET),
    ],
)
def test_a_secret_in_the_place_of_a_path_is_not_shown(tmp_path: Path, name: str, value: str) -> None:
    given = {"HMX_STATE": str(tmp_path), "HMX_KAFKA_BOOTSTRAP": "k:1", "HMX_KAFKA_SECURITY_PROTOCOL": "SSL"}
    with pytest.raises(SettingsError) as raised:
        Settings.load({**given, name: value}).require_kafka()
    said = str(raised.value)
    assert SECRET not in said
    assert name in said or "ssl.key.location" in said


def test_another_control_key_is_no_reason_to_start_anew(tmp_path: Path) -> None:
    """What the old one signed is still in the log, and a process with the new one would reject it."""
    given = {"HMX_STATE": str(tmp_path), "HMX_KAFKA_BOOTSTRAP": "k:1", "HMX_CONTROL_KEY_FILE": str(tmp_path / "key")}
    digests = set()
    for key in ("old", "new"):
        (tmp_path / "key").write_text(key)
        digests.add(Settings.load(given).credentials())
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("file", "singles", "found"),
    [
        ("sasl.mechanisms=PLAIN", {"SASL_MECHANISM": "SCRAM-SHA-512"}, {"sasl.mechanism": "SCRAM-SHA-512"}),
        ("sasl.mechanism=PLAIN", {"SASL_MECHANISMS": "SCRAM-SHA-512"}, {"sasl.mechanism": "SCRAM-SHA-512"}),
        (
            'sasl.jaas.config=a.ScramLoginModule required username="eve" password="old";',
            {"SASL_MECHANISM": "SCRAM-SHA-256", "SASL_PASSWORD": SECRET},
            {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "eve", "sasl.password": SECRET},
        ),
        (
            "sasl.username=eve\nsasl.password=old\nsasl.mechanism=SCRAM-SHA-512",
            {"SASL_JAAS_CONFIG": f'a.ScramLoginModule required password="{SECRET}";'},
            {"sasl.username": "eve", "sasl.password": SECRET},
        ),
        (
            "sasl.mechanism=OAUTHBEARER\nsasl.jaas.config=a.OAuthBearerLoginModule required clientId=x clientSecret=y;",
            {"SASL_JAAS_CONFIG": 'a.PlainLoginModule required username="b" password="p";', "SASL_MECHANISM": "PLAIN"},
            {"sasl.username": "b", "sasl.password": "p"},
        ),
    ],
)
def test_a_single_property_goes_before_the_file_whatever_its_name_there(
    tmp_path: Path, file: str, singles: dict[str, str], found: dict[str, str]
) -> None:
    (tmp_path / "kafka.properties").write_text(f"security.protocol=SASL_SSL\n{file}\n")
    given = {"HMX_STATE": str(tmp_path), "HMX_KAFKA_BOOTSTRAP": "k:1", "HMX_KAFKA_SASL_USERNAME": "bob"}
    given |= {"HMX_KAFKA_SASL_PASSWORD": "p", "HMX_KAFKA_CONFIG": str(tmp_path / "kafka.properties")}
    given |= {f"HMX_KAFKA_{name}": value for name, value in singles.items()}
    for known in ("USERNAME", "PASSWORD"):
        if f"SASL_{known}" not in singles and f"{known.lower()}=" in file + singles.get("SASL_JAAS_CONFIG", ""):
            del given[f"HMX_KAFKA_SASL_{known}"]
    assert found.items() <= Settings.load(given).require_kafka().librdkafka().items()


@pytest.mark.parametrize("name", ["HMX_REDIS_CA", "HMX_TLS_CERTIFICATE", "HMX_TLS_KEY"])
def test_a_file_that_is_absent_is_named_where_it_is_used(tmp_path: Path, name: str) -> None:
    there = tmp_path / "there.pem"
    there.write_text("x")
    given = {"HMX_STATE": str(tmp_path), "HMX_KAFKA_BOOTSTRAP": "k:1", "HMX_REDIS_CA": str(there)}
    given |= {"HMX_TLS_CERTIFICATE": str(there), "HMX_TLS_KEY": str(there), name: "/absent.pem"}
    made = Settings.load(given)
    with pytest.raises(SettingsError, match=f"{name}: /absent.pem: No such file"):
        made.credentials()
    made.credentials(redis=name != "HMX_REDIS_CA", https=name == "HMX_REDIS_CA")


@pytest.mark.parametrize(
    ("written", "password"),
    [
        ("'it is \"so\"; x=y'", 'it is "so"; x=y'),
        ('"it\'s"', "it's"),
        (r"'it\'s'", "it's"),
        ('""', None),
        ("bare", "bare"),
        (f'"{SECRET} x', None),
        (f"'a'{SECRET}", None),
        (f'a"{SECRET}"', None),
        (f"a {PIECE}=b", None),
        (f"a; {SECRET}", None),
    ],
)
def test_a_login_modules_options_are_read_in_both_quotes_or_refused(written: str, password: str | None) -> None:
    entry = {"sasl.jaas.config": f"a.ScramLoginModule required username='bob' password={written};"}
    if password is not None:
        assert KafkaProfile.of("k:1", {**SCRAM, **entry}).properties["sasl.password"] == password
        return
    with pytest.raises(ProfileError) as raised:
        KafkaProfile.of("k:1", {**SCRAM, **entry})
    assert PIECE not in str(raised.value)


def test_a_comment_takes_no_line_with_it() -> None:
    assert parse("# C:\\dir\\\na=1\n! x\\\r\nb=2\nc=3\\\n#4\nd=5\\") == {"a": "1", "b": "2", "c": "3#4", "d": "5"}


def test_only_line_breaks_end_a_value() -> None:
    assert parse("a=x\x85y\u2028z\x0b\nb\u00a0c=\x851\r\n") == {"a": "x\x85y\u2028z\x0b", "b\u00a0c": "\x851"}


@pytest.mark.parametrize("option", ["ssl_certfile", "ssl_keyfile", "ssl_ca_certs"])
def test_files_that_the_redis_url_names_are_looked_at_too(tmp_path: Path, option: str) -> None:
    file = tmp_path / "a file.pem"
    url = f"rediss://u:{SECRET}@redis:6380/0?health_check_interval=5&{option}={str(file).replace(' ', '%20')}"
    made = Settings.load({"HMX_STATE": str(tmp_path), "HMX_KAFKA_BOOTSTRAP": "k:1", "HMX_REDIS_URL": url})
    with pytest.raises(SettingsError, match=f"HMX_REDIS_URL: {option}: .*No such file") as raised:
        made.credentials()
    assert SECRET not in str(raised.value)
    digests = set()
    for text in ("old", "new"):
        file.write_text(text)
        digests.add(made.credentials())
    assert len(digests) == 2
