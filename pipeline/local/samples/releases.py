"""What the platform team of `acme` releases: deployments, rollbacks, rotated certificates."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from pipeline.local.samples.story import Story

TENANT = "acme"
REGISTRY_PASSWORD = "violet-Harbour-4471"  # noqa: S105 - planted, to see that it goes no further
PULL_FAILED = "ImagePullBackOff"


class Deploy(NamedTuple):
    at: str
    agent: str
    service: str
    version: str
    where: str
    wish: str
    checked: bool = False
    """The pull secret was looked at first, as the team does since it has learnt to."""
    trouble: str = ""
    """`secret`: the pull secret has expired; `retry`: that, retried in vain; `tag`: not pushed; `lost`: given up."""
    said: str = ""


DEPLOYS = (
    Deploy("02-02 09:12", "agent-rhea", "checkout", "2.14.1", "staging",
        "Deploy checkout 2.14.1 to staging, please.", said="Thanks!"),
    Deploy("02-02 14:40", "agent-noor", "catalog", "0.9.3", "staging",
        "Roll out catalog 0.9.3 on staging.", trouble="secret"),
    Deploy("02-03 10:05", "agent-rhea", "ledger", "4.0.2", "staging",
        "Can you release ledger 4.0.2 to staging today?", said="Perfect."),
    Deploy("02-04 08:55", "agent-ivo", "cart", "1.22.0", "staging",
        "Please deploy cart 1.22.0 to staging.", trouble="retry"),
    Deploy("02-05 16:20", "agent-noor", "catalog", "0.9.4", "staging",
        "Deploy catalog 0.9.4 to staging.", trouble="lost"),
    Deploy("02-06 09:30", "agent-rhea", "mailer", "3.1.0", "staging",
        "Roll out mailer 3.1.0 to staging, no hurry.", trouble="tag"),
    Deploy("02-09 11:10", "agent-ivo", "checkout", "2.15.0", "staging",
        "Deploy checkout 2.15.0 to staging.", trouble="retry"),
    Deploy("02-10 09:02", "agent-noor", "ledger", "4.1.0", "staging",
        "Deploy ledger 4.1.0 to staging.", checked=True, said="Thank you."),
    Deploy("02-10 15:35", "agent-rhea", "cart", "1.23.0", "production",
        "Release cart 1.23.0 to prod.", checked=True, said="Great job."),
    Deploy("02-11 10:48", "agent-ivo", "catalog", "0.9.5", "staging",
        "Please roll out catalog 0.9.5 on staging.", checked=True),
    Deploy("02-12 13:15", "agent-noor", "mailer", "3.1.1", "staging",
        "Deploy mailer 3.1.1 to staging.", checked=True, said="Thanks."),
    Deploy("02-13 09:20", "agent-rhea", "checkout", "2.15.1", "production",
        "Release checkout 2.15.1 to prod.", checked=True),
    Deploy("02-16 10:30", "agent-ivo", "ledger", "4.1.1", "staging",
        "Deploy ledger 4.1.1 on staging.", trouble="secret", said="Thanks!"),
)  # fmt: skip


def deployments() -> Iterator[Story]:
    for number, row in enumerate(DEPLOYS, 1):
        story = Story(TENANT, f"deploy-{number:02d}-{row.service}", row.agent, _at(row.at), ("deployment", row.where))
        wish = story.user(row.wish)
        story.call(
            "ci_status", {"service": row.service, "version": row.version}, {"state": "passed", "jobs": 14 + number}
        )
        if row.checked:
            story.run(f"kubectl get secret regcred -n {row.where}", "regcred  kubernetes.io/dockerconfigjson  1  2d")
        story.run(f"helm diff upgrade {row.service} charts/{row.service} -n {row.where}", f"image tag: {row.version}")
        upgraded = story.run(
            f"helm upgrade {row.service} charts/{row.service} -n {row.where} --set image.tag={row.version}",
            f"Release {row.service!r} has been upgraded.",
        )
        if number == 3:
            story.feedback("correction", "Use --atomic, so that a half-done release takes itself back.", upgraded)
            story.run(f"helm upgrade {row.service} charts/{row.service} -n {row.where} --atomic", "upgraded")
        if row.trouble and not _recovered(story, row):
            story.agent(
                f"{row.service} {row.version} is not running. The old version still serves; I have left it alone."
            )
            story.feedback("negative", "We needed this today. Ask in #platform before giving up.", wish)
        else:
            _finished(story, row, number)
        yield story


def _rollout(story: Story, row: Deploy, *, ok: bool) -> None:
    command = f"kubectl rollout status deploy/{row.service} -n {row.where} --timeout=180s"
    if ok:
        story.run(command, f'deployment "{row.service}" successfully rolled out')
        return
    story.run(command, "error: timed out waiting for the condition", ok=False)
    story.error(PULL_FAILED, f'Back-off pulling image "registry.acme.example/{row.service}:{row.version}"')


def _recovered(story: Story, row: Deploy) -> bool:
    _rollout(story, row, ok=False)
    pod = f"{row.service}-7c9f8d6b5-x{len(row.service)}k2p"
    if row.trouble == "retry":
        story.agent("The node may just be slow. I will try once more.")
        _rollout(story, row, ok=False)
    if row.trouble == "lost":
        story.run(f"kubectl delete pod {pod} -n {row.where}", f'pod "{pod}" deleted')
        _rollout(story, row, ok=False)
        return False
    if row.trouble == "tag":
        story.run(f"docker manifest inspect registry.acme.example/{row.service}:{row.version}", "manifest unknown")
        story.agent("The image was built but never pushed. I will push it.")
        story.run(f"docker push registry.acme.example/{row.service}:{row.version}", "pushed: digest sha256:41f0c3")
    else:
        story.run(f"kubectl describe pod {pod} -n {row.where}", "401 Unauthorized: the pull secret has expired")
        story.agent("The registry answers 401: the pull secret has expired. Shall I make a new one?")
        story.user("Yes, go ahead.")
        story.run(
            f"kubectl create secret docker-registry regcred -n {row.where} --docker-server=registry.acme.example "
            f"--docker-username=ci --docker-password={REGISTRY_PASSWORD}",
            "secret/regcred created",
        )
    _rollout(story, row, ok=True)
    return True


def _finished(story: Story, row: Deploy, number: int) -> None:
    if not row.trouble:
        _rollout(story, row, ok=True)
    story.test(
        f"pytest tests/smoke -q --base-url https://{row.service}.{row.where}.acme.example", f"{11 + number} passed"
    )
    story.state("release live")
    if number % 4 == 0:
        story.event("x-acme-cost_estimate", {"summary": f"{row.service} costs {number} EUR a day more"}, "finops")
    told = story.agent(f"{row.service} {row.version} is live on {row.where}; the smoke tests pass.")
    if number % 3 == 1:
        story.feedback("positive", "That was quick.", told)
    elif row.said:
        story.user(row.said)


ROLLBACKS = (
    ("02-05 17:05", "agent-rhea", "catalog", "0.9.2", "Roll back catalog to 0.9.2, it finds nothing."),
    ("02-11 18:20", "agent-noor", "cart", "1.22.4", "Please revert cart to 1.22.4."),
    ("02-17 08:15", "agent-ivo", "mailer", "3.0.9", "Roll back mailer to 3.0.9."),
)


def rollbacks() -> Iterator[Story]:
    for number, (at, agent, service, version, wish) in enumerate(ROLLBACKS, 1):
        story = Story(TENANT, f"rollback-{number:02d}-{service}", agent, _at(at), ("rollback", "production"))
        story.user(wish)
        story.run(
            f"helm history {service} -n production --max 5",
            f"REVISION {30 + number} deployed, {29 + number} superseded",
        )
        story.decide(
            f"To which revision does {service} go back?",
            f"revision {29 + number}",
            [f"revision {28 + number}"],
            f"It is the last one that carried {version}.",
            0.9,
        )
        story.run(f"helm rollback {service} {29 + number} -n production --wait", "Rollback was a success!")
        story.run(f"kubectl rollout status deploy/{service} -n production", "successfully rolled out")
        story.test(f"pytest tests/smoke -q --base-url https://{service}.acme.example", "14 passed")
        story.state("previous release live")
        story.agent(f"{service} is back on {version} and answers.")
        if number != 2:
            story.user("Thanks, that's all.")
        yield story


ROTATIONS = (
    (
        "02-03 16:10",
        "agent-ivo",
        "api.acme.example",
        "Rotate the TLS certificate of api.acme.example, it ends on Friday.",
    ),
    ("02-09 15:00", "agent-rhea", "pay.acme.example", "Please renew the TLS certificate for pay.acme.example."),
    ("02-18 10:25", "agent-ivo", "docs.acme.example", "Rotate the certificate of docs.acme.example."),
)


def rotations() -> Iterator[Story]:
    for number, (at, agent, host, wish) in enumerate(ROTATIONS, 1):
        story = Story(TENANT, f"rotate-{number:02d}", agent, _at(at), ("certificates",))
        story.user(wish)
        story.call("list_certificates", {"host": host}, {"text": f"{host}: valid for {3 * number} more days"})
        story.run(f"certbot renew --cert-name {host}", "Congratulations, all renewals succeeded")
        story.run(
            f"kubectl create secret tls {host.split('.', maxsplit=1)[0]}-tls --cert=full.pem --key=key.pem", "created"
        )
        story.run("kubectl rollout restart deploy/ingress -n edge", "deployment.apps/ingress restarted")
        story.event("browser_action", {"action": "open", "url": f"https://{host}", "success": True}, "tool:browser")
        story.state("certificate valid for 90 days")
        story.agent(f"{host} presents the new certificate.")
        yield story


def _at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-{text}:00+00:00")
