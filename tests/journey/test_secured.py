"""On a Kafka that lets in only who may, and a Redis behind TLS: every way in, and exactly the rights `hmx acls` prints.

Each process logs in as a user of its own. What is taken away is named by whoever lacks it; what is replaced is used.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import TopicPartition
from faust.transport.drivers.aiokafka import credentials_to_aiokafka_auth

from hmx_pipeline.kafka.acl_rights import PROCESSES, rights
from hmx_pipeline.kafka.topic_files import KafkaUnreachableError, connect, load_topics, metadata
from hmx_pipeline.kafka_profile import KafkaProfile
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.atomic_blocks import StoreUnavailableError, reachable
from hmx_pipeline.store.atomic_blocks import connect as connect_redis
from hmx_pipeline.topology import ARTIFACTS, EPISODES, EVENTS, EVIDENCE
from hmx_pipeline.worker.credentials import credentials
from tests.support.own_command import hmx
from tests.support.pipeline import Pipeline, create_topics, new_settings
from tests.support.records import event
from tests.support.secured import PLAIN_PASSWORD, SecuredKafka, TlsFront, Tokens, running

PASSWORD = "scram-Zq7Xw2Lk9"
NEW_PASSWORD = "scram-Pm4Rt8Vb1"
WAIT_S = 90.0
REDIS_RIGHTS = "+@all -@dangerous +info +config|get"
RUNNING = ("worker", "materialiser", "service")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with running(tmp_path_factory.mktemp("secured")) as kafka:
        for process in PROCESSES:
            kafka.set_password(process, PASSWORD)
        yield kafka


@pytest.fixture
def settings(secured: SecuredKafka, redis_url: str) -> Settings:
    """Topics of its own, which the operator creates, and the rights of every process."""
    made = new_settings(secured.brokers.bootstrap, redis_url, window_ms=500)
    secured.allow_each({process: rights(process, made.topic_prefix) for process in PROCESSES})
    create_topics(as_user(made, secured, "operator"), partitions=2)
    return made


def as_user(settings: Settings, kafka: SecuredKafka, user: str) -> Settings:
    return kafka.as_user(settings, user, PASSWORD)


def start(pipeline: Pipeline, kafka: SecuredKafka, *names: str, ready: bool = True) -> None:
    for name in names:
        used = as_user(pipeline.settings, kafka, name)
        changes = {"kafka_bootstrap": used.kafka_bootstrap, "kafka_properties": used.kafka_properties}
        pipeline.start(name, ready=False, **changes)
    for name in names if ready else ():
        pipeline.await_ready(name, getattr(pipeline.settings, f"{name}_port"))


@pytest.fixture
def pipeline(settings: Settings, tmp_path: Path) -> Iterator[Pipeline]:
    made = Pipeline(settings, tmp_path)
    yield made
    made.stop_all()


def await_true(what: Callable[[], Any], seconds: float = WAIT_S) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def session(name: str) -> list[dict[str, Any]]:
    said = ("Deploy checkout to staging", "The registry of checkout is registry.internal:5000", "Thanks")
    return [event(name, n, tenant_id="acme", content={"role": "user", "text": text}) for n, text in enumerate(said)]


# the rights


def test_the_rights_that_acls_prints_are_enough(
    secured: SecuredKafka, pipeline: Pipeline, redis_of: Callable[[str], str], tmp_path: Path
) -> None:
    """Redis is behind TLS too, and its user may touch the pipeline's keys only."""
    url = redis_of(f"~{pipeline.settings.topic_prefix}hmx:* {REDIS_RIGHTS}")
    settings = replace(
        pipeline.settings, redis_url=url, redis_password=PASSWORD, redis_ca=secured.certificates.path("ca.pem")
    )
    pipeline.settings, lines = settings, tmp_path / "sessions.ndjson"
    lines.write_text("".join(json.dumps(one) + "\n" for n in range(4) for one in session(f"s-{n}")) + "no event\n")
    start(pipeline, secured, *RUNNING)
    published = hmx(as_user(settings, secured, "publisher"), "publish", str(lines))
    assert published.exit_code == 0, published.output
    with httpx.Client(base_url=settings.service_url, headers={"X-HMX-Tenant": "acme"}, timeout=WAIT_S) as client:
        assert client.post("/v1/hmx/events", json=session("s-http")).status_code < 300
        assert client.post("/v1/learn", json={}).status_code == 200
        asked = {"query": "Where is the registry?", "token_budget": 600}
        assert "registry.internal:5000" in client.post("/v1/hmx/context-packs", json=asked).text
        await_true(lambda: client.get("/readyz").status_code == 200)
    operator = as_user(settings, secured, "operator")

    def does(*words: str) -> None:
        done = hmx(operator, *words)
        assert done.exit_code == 0, (words, done.output, done.exception)

    for words in (["verify"], ["replay", "--from-start", "--compare"], ["dlq"], ["dlq", "replay", "--yes"]):
        does(*words)
    does("retention", "plan", "acme", "all:1d")
    pipeline.stop_all()
    secured.allow("operator", rights("operator", grown := operator.topic_prefix + "g2."))
    does("topics", "grow", "--partitions", "4", "--to", grown, "--yes")
    admin, folder = connect(operator.require_kafka()), str(tmp_path / "backup")
    events = TopicPartition(operator.topic_prefix + EVENTS, 0, 1)
    admin.delete_records([events])[events].result(WAIT_S)
    does("backup", folder)
    names = [operator.topic_prefix + spec.topic for spec in load_topics()]
    for future in admin.delete_topics(names).values():
        future.result(WAIT_S)
    await_true(lambda: not set(names) & set(metadata(admin).topics))
    does("restore", folder)
    assert not re.search("denie|denied|grant|authoriz", "".join(map(pipeline.log, RUNNING)), re.IGNORECASE)


@pytest.mark.parametrize(
    "lacking",
    [
        {
            "worker": f"Write on topic {EPISODES}",
            "materialiser": f"Read on topic {EVIDENCE}",
            "service": f"Write on topic {EVENTS}",
        },
        {
            "worker": "Read on group hmx",
            "materialiser": "Describe on group hmx",
            "service": f"Read on topic {ARTIFACTS}",
        },
        {"worker": "Write on transactional id hmx-sessions-…"},
    ],
    ids=["of topics", "of groups and a topic", "of a transaction"],
)
def test_a_right_that_lacks_is_named(secured: SecuredKafka, pipeline: Pipeline, lacking: dict[str, str]) -> None:
    """Each process has a user of its own, and none waits for another."""
    prefix, told = pipeline.settings.topic_prefix, {}
    for process, right in lacking.items():
        operation, _, place = right.partition(" on ")
        (whole,) = (one for one in rights(process) if str(one).endswith(f"on {place}"))
        secured.forbid(process, [whole._replace(name=prefix + whole.name, operations=(operation,))])
        kind, name = place.rsplit(" ", 1)
        told[process] = f"{kind} {prefix}{name.rstrip('…')}"
    start(pipeline, secured, *lacking, ready=False)

    def says(process: str) -> bool:
        port = getattr(pipeline.settings, f"{process}_port")
        try:
            said = httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=WAIT_S).text
        except httpx.HTTPError:
            said = ""
        return told[process] in said + pipeline.log(process) and "hmx acls" in said + pipeline.log(process)

    for process in lacking:
        await_true(lambda process=process: says(process))


def doctor(settings: Settings, process: str) -> dict[str, dict[str, Any]]:
    told = json.loads(hmx(settings, "doctor", "--process", process, "--json").stdout)
    return {each["check"]: each for each in told["checks"]}


def test_the_doctor_names_a_right_that_lacks_and_a_wrong_password(secured: SecuredKafka, settings: Settings) -> None:
    found = doctor(as_user(settings, secured, "operator"), "materialiser")
    assert found["topics"]["ok"] is True, "two partitions of each are as good as eight"
    found = doctor(as_user(settings, secured, "materialiser"), "materialiser")
    assert (found["kafka"]["ok"], found["rights"]["ok"], found["topics"]["ok"]) == (True, True, None)
    lacking = next(right for right in rights("materialiser", settings.topic_prefix) if right.name.endswith(EVIDENCE))
    secured.forbid("materialiser", [lacking])
    found = doctor(as_user(settings, secured, "materialiser"), "materialiser")
    assert f"Read on topic {settings.topic_prefix}{EVIDENCE}" in found["rights"]["said"]
    assert found["rights"]["mend"] == "hmx acls --process materialiser"
    wrong = doctor(secured.as_user(settings, "materialiser", NEW_PASSWORD), "materialiser")
    assert "refuses the login" in wrong["kafka"]["said"]
    assert NEW_PASSWORD not in str(wrong)


def test_who_may_not_publish_is_told_so(secured: SecuredKafka, settings: Settings, tmp_path: Path) -> None:
    lines = tmp_path / "events.ndjson"
    lines.write_text(json.dumps(session("s")[0]) + "\n")
    wanted = rights("publisher", settings.topic_prefix)
    secured.forbid("publisher", wanted)
    secured.allow("publisher", [one._replace(operations=("Describe",)) for one in wanted])
    done = hmx(as_user(settings, secured, "publisher"), "publish", str(lines))
    assert (done.exit_code, done.stdout) == (1, "")
    assert (
        f"does not grant this publisher Write on topic {settings.topic_prefix}{EVENTS}"
        in f"{done.stderr} {done.exception}"
    )


# the ways in


def seen_by_aiokafka(kafka: KafkaProfile) -> set[str]:
    async def ask() -> set[str]:
        auth = credentials_to_aiokafka_auth(credentials(kafka))
        consumer = AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap, request_timeout_ms=10_000, **auth)
        await consumer.start()
        try:
            return await consumer.topics()
        finally:
            await consumer.stop()

    return asyncio.run(ask())


JAAS = "org.apache.kafka.common.security"


def ways(kafka: SecuredKafka, tokens: Tokens) -> dict[str, tuple[str, str, str]]:
    """Properties as people write them: who that is, through which listener, the file's text."""
    made = kafka.certificates
    ca = f"ssl.truststore.type=PEM\nssl.truststore.location={made.path('ca.pem')}\n"
    oauth = f"""sasl.mechanism=OAUTHBEARER
        sasl.oauthbearer.token.endpoint.url={tokens.url}
        sasl.login.callback.handler.class={JAAS}.oauthbearer.OAuthBearerLoginCallbackHandler
        sasl.jaas.config={JAAS}.oauthbearer.OAuthBearerLoginModule required clientId="tokened" \\
          clientSecret="s3" scope="k";
        """
    inline = "".join(
        f"ssl.keystore.{name}={Path(made.path(file)).read_text()}".strip().replace("\n", "\\n\\\n  ") + "\n"
        for name, file in (("key", "mtls.key"), ("certificate.chain", "mtls.pem"))
    )
    login = f"sasl.username={{}}\nsasl.password={{}}\n{ca}"
    scram = f'{JAAS}.scram.ScramLoginModule required \\\n  username="worker" password="{PASSWORD}";\n{ca}'
    store = f"ssl.keystore.location={made.path('mtls.store.pem')}\n{ca}"
    files = f"ssl.certificate.location={made.path('mtls.pem')}\nssl.key.location={made.path('mtls.key')}\n"
    return {
        "SCRAM": ("worker", "SASL_SSL", f"sasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={scram}"),
        "256": ("small", "SASL_SSL", "sasl.mechanism=SCRAM-SHA-256\n" + login.format("small", PASSWORD)),
        "PLAIN": ("plain", "SASL_SSL", "sasl.mechanism=PLAIN\n" + login.format("plain", PLAIN_PASSWORD)),
        "no TLS": (
            "worker",
            "SASL_PLAINTEXT",
            f"sasl.mechanism=SCRAM-SHA-512\nsasl.username=worker\nsasl.password={PASSWORD}\n",
        ),
        "OAUTHBEARER": ("tokened", "SASL_SSL", oauth + ca),
        "mTLS": ("mtls", "SSL", f"ssl.keystore.type=PEM\n{store}"),
        "mTLS inline": ("mtls", "SSL", f"ssl.keystore.type=PEM\n{inline}{ca}"),
        "mTLS, librdkafka's names": ("mtls", "SSL", f"{files}ssl.ca.location={made.path('ca.pem')}\n"),
    }


def test_each_way_in_is_the_same_for_both_clients(secured: SecuredKafka, settings: Settings, tmp_path: Path) -> None:
    secured.set_password("small", PASSWORD, "SCRAM-SHA-256")
    tokens, file = Tokens("s3"), tmp_path / "kafka.properties"
    for name, (user, way, text) in ways(secured, tokens).items():
        secured.allow(user, [one for one in rights("worker", settings.topic_prefix) if one.kind == "topic"])
        file.write_text(f"security.protocol={way}\nbootstrap.servers={secured.address(way)}\n{text}")
        kafka = Settings.load({"HMX_KAFKA_CONFIG": str(file), "HMX_STATE": str(tmp_path)}).require_kafka()
        ours = {topic for topic in metadata(connect(kafka)).topics if topic.startswith(settings.topic_prefix)}
        assert len(ours) == 10, name
        assert {topic for topic in seen_by_aiokafka(kafka) if topic.startswith(settings.topic_prefix)} == ours, name
    assert tokens.asked == 2  # one for each client
    tokens.shutdown()
    tokens.server_close()


def test_who_is_not_let_in_is_told_why_and_no_secret(secured: SecuredKafka) -> None:
    right, made = secured.scram("worker", PASSWORD), secured.certificates
    address, plain = secured.address("SASL_SSL"), secured.brokers.bootstrap
    only_tls = {"security.protocol": "SSL", "ssl.ca.location": made.path("ca.pem")}
    for place, properties, says in (
        (address, right | {"sasl.password": "wrong-Kj3"}, "refuses the login: check sasl.username, sasl.password"),
        (address, right | {"ssl.ca.location": made.path("other-ca.pem")}, "check security.protocol, ssl.ca.location"),
        (address.replace("localhost", "127.0.0.1"), right, "the host name"),
        (plain, right, "check security.protocol"),
        (secured.address("SSL"), only_tls, "certificate required"),
        (address, {}, "Failed to get metadata"),
    ):
        kafka = KafkaProfile.of(place, properties)
        with pytest.raises(KafkaUnreachableError) as raised:
            metadata(connect(kafka))
        assert says in str(raised.value)
        assert (place in str(raised.value)) == bool(properties)
        for secret in (PASSWORD, "wrong-Kj3"):
            assert secret not in str(raised.value) + repr(kafka) + str(kafka)


# what is replaced


def test_processes_go_on_with_a_password_that_was_replaced(
    secured: SecuredKafka, pipeline: Pipeline, tmp_path: Path
) -> None:
    secret, file = tmp_path / "password", tmp_path / "kafka.properties"
    secured.set_password("rotated", PASSWORD)
    for process in ("worker", "materialiser"):
        secured.allow("rotated", rights(process, pipeline.settings.topic_prefix))
    secret.write_text(PASSWORD + "\n")
    lines = secured.scram("rotated", f"${{file:{secret}}}") | {"bootstrap.servers": secured.address("SASL_SSL")}
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    names = ("worker", "materialiser")
    for name in names:
        pipeline.start(name, kafka_config=str(file), kafka_bootstrap=secured.address("SASL_SSL"))
    pids = [pipeline.processes[name].pid for name in names]
    secured.set_password("rotated", NEW_PASSWORD)
    secret.write_text(NEW_PASSWORD + "\n")
    marks = {"worker": "App]: Starting", "materialiser": "reading 10 partitions"}
    await_true(lambda: all(pipeline.log(name, 10_000).count(marks[name]) == 2 for name in names))
    for name in names:
        pipeline.await_ready(name, getattr(pipeline.settings, f"{name}_port"))
        assert pipeline.processes[name].poll() is None
        assert PASSWORD not in pipeline.log(name, 10_000)
        assert NEW_PASSWORD not in pipeline.log(name, 10_000)
    assert pids == [pipeline.processes[name].pid for name in names]


# Redis


@pytest.fixture
def redis_of(secured: SecuredKafka, redis_url: str) -> Iterator[Callable[[str], str]]:
    """A way in over TLS, for a user with these rights."""
    plain = connect_redis(redis_url)
    front = TlsFront(secured.certificates, int(redis_url.rpartition(":")[2].partition("/")[0]))

    def made(granted: str) -> str:
        plain.execute_command("ACL", "SETUSER", "secured", "reset", "on", f">{PASSWORD}", *granted.split())
        return f"rediss://secured@localhost:{front.server_address[1]}/0"

    yield made
    front.shutdown()
    front.server_close()
    plain.execute_command("ACL", "DELUSER", "secured")
    plain.close()


def test_redis_behind_tls_wants_its_authority_user_and_password(
    secured: SecuredKafka, redis_of: Callable[[str], str]
) -> None:
    url, made = redis_of("~secured-* +@all"), secured.certificates
    client = connect_redis(url, PASSWORD, made.path("ca.pem"))
    assert client.set("secured-1", b"kept")
    assert client.delete("secured-1")
    client.close()
    for place, ca, password, says in (
        (url, "other-ca.pem", PASSWORD, "CERTIFICATE_VERIFY_FAILED"),
        (url.replace("localhost", "127.0.0.1"), "ca.pem", PASSWORD, "CERTIFICATE_VERIFY_FAILED"),
        (url, "ca.pem", "wrong-Kj3", "it wants another user or password"),
    ):
        client = connect_redis(place, password, made.path(ca))
        with pytest.raises(StoreUnavailableError, match=says) as raised, reachable():
            client.ping()
        assert PASSWORD not in str(raised.value)
        assert "wrong-Kj3" not in str(raised.value)
        client.close()


def test_the_service_speaks_https(secured: SecuredKafka, pipeline: Pipeline) -> None:
    made, port = secured.certificates, pipeline.settings.service_port
    used = as_user(pipeline.settings, secured, "service")
    pipeline.start(
        "service", ready=False, tls_certificate=made.path("server.pem"), tls_key=made.path("server.key"),
        kafka_bootstrap=used.kafka_bootstrap, kafka_properties=used.kafka_properties, host="localhost",
    )  # fmt: skip
    import ssl

    with httpx.Client(verify=ssl.create_default_context(cafile=made.path("ca.pem"))) as client:

        def answers() -> bool:
            try:
                return client.get(f"https://localhost:{port}/startupz").status_code == 200
            except httpx.ConnectError:
                return False

        await_true(answers)


def test_a_right_that_is_taken_from_a_running_worker_is_named(
    secured: SecuredKafka, pipeline: Pipeline, tmp_path: Path
) -> None:
    settings, lines = pipeline.settings, tmp_path / "sessions.ndjson"
    lines.write_text("".join(json.dumps(one) + "\n" for one in session("s")))
    start(pipeline, secured, "worker")
    taken = [one for one in rights("worker", settings.topic_prefix) if one.name.endswith(EPISODES)]
    secured.forbid("worker", taken)
    assert hmx(as_user(settings, secured, "publisher"), "publish", str(lines)).exit_code == 0
    await_true(lambda: pipeline.processes["worker"].poll() is not None)
    assert pipeline.processes["worker"].returncode == 5
    assert "Kafka grants too few rights on a topic" in pipeline.log("worker")
