"""What the developers of `acme` change: code that is refactored, tables that are migrated."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from pipeline.local.samples.story import Story

TENANT = "acme"
DATABASE_PASSWORD = "Quartz-lantern-882"  # noqa: S105 - planted, to see that it goes no further


class Refactoring(NamedTuple):
    at: str
    agent: str
    package: str
    name: str
    wish: str
    files: tuple[str, ...]
    circular: bool = False
    """The first cut makes two modules import each other."""
    correction: str = ""
    kept: bool = True


REFACTORINGS = (
    Refactoring("02-02 10:20", "agent-lin", "pricing", "Money",
        "Refactor the pricing module: take the tax rules out of cart.py.",
        ("shop/pricing/tax.py", "shop/pricing/cart.py"), circular=True),
    Refactoring("02-03 13:30", "agent-sam", "orders", "OrderState",
        "Extract the order states into a class of their own.",
        ("shop/orders/states.py", "shop/orders/service.py"), correction="Keep the old names for one release."),
    Refactoring("02-05 09:45", "agent-lin", "search", "Query",
        "Please simplify the query parser, nobody dares to touch it.",
        ("shop/search/parser.py",)),
    Refactoring("02-06 14:05", "agent-sam", "mail", "Template",
        "Rename Mailer to Outbox everywhere.",
        ("shop/mail/outbox.py", "shop/mail/templates.py", "shop/jobs.py"), circular=True),
    Refactoring("02-10 11:00", "agent-lin", "stock", "Shelf",
        "Refactor stock: shelves and bins share most of their code.",
        ("shop/stock/shelf.py", "shop/stock/bin.py"), circular=True, correction="No base class; a function will do."),
    Refactoring("02-12 10:10", "agent-sam", "auth", "Session",
        "Restructure the auth package.",
        ("shop/auth/session.py", "shop/auth/login.py"), circular=True),
    Refactoring("02-13 15:25", "agent-lin", "reports", "Row",
        "Clean up the reports package.",
        ("shop/reports/rows.py", "shop/reports/csv.py")),
    Refactoring("02-18 13:40", "agent-sam", "pricing", "Discount",
        "Refactor discounts, the rules are spread over four modules.",
        ("shop/pricing/discount.py", "shop/pricing/cart.py"), kept=False),
)  # fmt: skip


def refactorings() -> Iterator[Story]:
    for number, row in enumerate(REFACTORINGS, 1):
        story = Story(
            TENANT, f"refactor-{number:02d}-{row.package}", row.agent, _at(row.at), ("refactoring", row.package)
        )
        tests = f"pytest tests/{row.package} -q"
        story.user(row.wish)
        story.call(
            "search_code", {"pattern": row.name, "path": f"shop/{row.package}"}, {"text": f"{5 + number} matches"}
        )
        story.call("read_file", {"path": row.files[0]}, {"text": f"class {row.name}: ... {80 + 9 * number} lines"})
        story.run(f"git switch -c tidy-{row.package}", f"Switched to a new branch 'tidy-{row.package}'")
        for path in row.files:
            story.edit(path, f"{row.name} moved")
        if row.circular:
            _circular(story, row, tests)
        if not row.kept:
            story.test(tests, f"{number} failed, 61 passed", ok=False)
            story.error("AssertionError", "assert Decimal('19.98') == Decimal('19.99')", salience=0.7)
            story.run(f"git restore shop/{row.package}", "Updated 2 paths from the index")
            told = story.agent("Prices change by a cent with every split that I try. I have put everything back.")
            story.feedback("negative", "Then the rules are worth writing down first.", told)
            yield story
            continue
        passed = story.test(tests, f"{40 + 3 * number} passed")
        if row.correction:
            story.feedback("correction", row.correction, passed)
            story.edit(row.files[0], "as asked")
            story.test(tests, f"{41 + 3 * number} passed")
        story.run("ruff check shop", "All checks passed!")
        story.run(
            f'git commit -am "Tidy {row.package}: one place for {row.name}"',
            f"[tidy-{row.package} 4f1c{number}a9] 2 files changed",
        )
        told = story.agent(
            f"{row.package} is tidier by {12 + number} lines; all tests pass and the branch is ready for review."
        )
        if number % 2:
            story.feedback("positive", "Reads well.", told)
        yield story


def _circular(story: Story, row: Refactoring, tests: str) -> None:
    story.test(tests, "ERROR collecting: 1 error during collection", ok=False)
    module = f"shop.{row.package}"
    story.error(
        "ImportError",
        f"cannot import name '{row.name}' from partially initialized module '{module}'",
    )
    story.call("read_file", {"path": row.files[-1]}, {"text": f"from {module} import {row.name}"})
    story.edit(row.files[-1], f"{row.name} is imported from the module that defines it")


class Migration(NamedTuple):
    at: str
    agent: str
    table: str
    wish: str
    locked: str = ""
    """The table is in use; what is done about it: `end` the sessions that hold it, `night`: wait, `force`: in vain."""


MIGRATIONS = (
    Migration("02-03 07:40", "agent-sam", "orders", "Migrate orders to 64-bit ids.", locked="end"),
    Migration(
        "02-06 07:30", "agent-lin", "customers", "Please migrate customers to the new address columns.", locked="night"
    ),
    Migration("02-11 07:50", "agent-sam", "shipments", "Migrate shipments to partitions by month.", locked="force"),
    Migration("02-13 07:35", "agent-lin", "stock_moves", "Migrate stock_moves to partitions by month.", locked="end"),
    Migration("02-17 07:45", "agent-sam", "coupons", "Migrate coupons to 64-bit ids."),
    Migration("02-19 07:25", "agent-lin", "baskets", "Migrate baskets to 64-bit ids.", locked="end"),
)


def migrations() -> Iterator[Story]:
    for number, row in enumerate(MIGRATIONS, 1):
        story = Story(TENANT, f"migrate-{number:02d}-{row.table}", row.agent, _at(row.at), ("database",))
        story.user(row.wish)
        story.call("describe_table", {"table": row.table}, {"text": f"{row.table}: {number * 1_300_000} rows"})
        story.edit(f"migrations/{100 + number}_{row.table}.py", "expand, copy, contract")
        url = f"postgresql://migrator:{DATABASE_PASSWORD}@db.acme.example/shop"
        story.run(f"pg_dump --schema-only -t {row.table} {url} -f before.sql", "1 table")
        done = _upgraded(story, row)
        if done:
            story.test("pytest tests/migrations -q", f"{8 + number} passed")
            story.state("schema migrated")
            story.agent(f"{row.table} is migrated; before.sql holds the old shape.")
        else:
            story.agent(f"{row.table} is as it was. It needs a maintenance window.")
            story.feedback("negative", "Plan the window with support first.")
        if number % 3 == 1:
            story.user("Thanks!")
        yield story


def _upgraded(story: Story, row: Migration) -> bool:
    command = "alembic upgrade head"
    if row.locked:
        story.run(command, ok=False)
        story.error("LockNotAvailable", f'canceling statement due to lock timeout: relation "{row.table}"')
    match row.locked:
        case "end":
            story.call(
                "find_blocking_sessions", {"table": row.table}, {"text": "2 idle in transaction since yesterday"}
            )
            story.call("terminate_session", {"pids": [4711, 4712]}, {"text": "2 ended"})
        case "night":
            story.observe(f"the nightly export of {row.table} has finished")
        case "force":
            story.run(command, ok=False)
            story.error("LockNotAvailable", f'canceling statement due to lock timeout: relation "{row.table}"')
            return False
    story.run(command, "Running upgrade -> head")
    return True


def _at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-{text}:00+00:00")
