"""Another customer: the two people behind `northwind`, a small shop. Nothing of theirs is ever mixed with `acme`."""

from collections.abc import Iterator
from datetime import datetime

from pipeline.local.samples.story import Story

TENANT = "northwind"
_DEPLOYS = (
    ("02-04 12:05", "Deploy the storefront.", True),
    ("02-10 12:30", "Please deploy the storefront with the spring prices.", False),
    ("02-16 12:15", "Deploy the storefront again, the banner was wrong.", True),
)


def northwind() -> Iterator[Story]:
    for number, (at, wish, unhealthy) in enumerate(_DEPLOYS, 1):
        story = Story(TENANT, f"storefront-{number}", "agent-pip", datetime.fromisoformat(f"2026-{at}:00+00:00"))
        story.user(wish)
        story.call("count_open_carts", {"shop": "northwind"}, {"text": f"{3 * number} open carts"})
        story.run("npm run build", "built in 6.1 s")
        story.run(
            "fly deploy --strategy rolling",
            "1 desired, 1 placed" + (", 1 unhealthy" if unhealthy else ""),
            ok=not unhealthy,
        )
        if unhealthy:
            story.error("HealthCheckError", "health check on port 3000 has failed: connection refused")
            story.edit("fly.toml", "the server listens on 8080")
            story.run("fly deploy --strategy rolling", "1 desired, 1 placed, 1 healthy")
        story.test("npm run test:smoke", f"{4 + number} passing")
        story.agent("The storefront is live.")
        story.user("Thanks!")
        yield story
    yield _question()


def _question() -> Story:
    story = Story(TENANT, "opening-hours", "agent-pip", datetime.fromisoformat("2026-02-12T15:00:00+00:00"))
    story.user("Change the opening hours on the contact page to 9–17.")
    story.call("read_file", {"path": "site/contact.md"}, {"text": "open 10–18"})
    story.edit("site/contact.md", "open 9–17")
    story.run("npm run build", "built in 5.8 s")
    story.agent("The contact page says 9–17 now.")
    return story
