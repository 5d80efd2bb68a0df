"""Which files a request will touch: named, worked on for such goals; whatever order sessions came in."""

from itertools import permutations

from hmx_pipeline.advice.files import Files, sessions
from hmx_pipeline.compiler.extract import contributions
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Contribution
from tests.support.segments import Script


def session(name: str, goal: str, *changed: str, seen: str = "") -> list[Contribution]:
    made = Script(name)
    made.user(goal)
    if seen:
        made.tool("read_file", values=(seen,))
    for path in changed:
        made.add(Role.ACTION, name="edit", text=path, ok=True)
    return [c for c in contributions(made.segment()) if c.pattern_type == "touched"]


PAST = [
    session("a", "The login page forgets the password", "web/login.py", "web/login_test.py"),
    session("b", "Print the invoice on one page", "billing/invoice.py"),
    session("c", "The invoice lacks the tax", "billing/invoice.py", "billing/tax.py"),
    session("d", "Speed up the search", "search/index.py", seen="/home/me/app/billing/tax.py"),
]


def likely(request: str, past: list[list[Contribution]] = PAST) -> list[str]:
    return [file.path for file in Files(sessions(c for one in past for c in one)).likely(request)]


def test_what_was_changed_for_such_a_goal_comes_first() -> None:
    assert likely("Wrong sum on the invoice")[0] == "billing/invoice.py"
    assert likely("Login fails")[0].startswith("web/login")


def test_what_is_known_for_one_request_says_the_same_of_it_as_what_is_known_for_all() -> None:
    known = sessions(c for one in PAST for c in one)
    for request in ("Wrong sum on the invoice", "What does web.login do?", "index.py or billing/tax.py", "nothing", ""):
        assert Files(known, request).likely(request) == Files(known).likely(request)


def test_a_file_that_is_named_comes_first() -> None:
    assert likely("Look at index.py for the invoice")[0] == "search/index.py"
    assert likely("What does web.login do?")[0] == "web/login.py"


def test_absolute_paths_are_those_that_others_name_relatively() -> None:
    assert "/home/me/app/billing/tax.py" not in likely("Tax of the invoice")
    assert "billing/tax.py" in likely("Tax of the invoice")


def test_any_order_of_sessions_gives_the_same_files() -> None:
    advice = {tuple(likely("invoice page search login", list(mixed))) for mixed in permutations(PAST)}
    assert len(advice) == 1


def test_nothing_is_likely_where_nothing_is_known() -> None:
    assert likely("anything", []) == []


def test_a_file_that_nobody_has_met_is_likely_where_the_request_names_it() -> None:
    assert "billing/refund.py" in likely("Refunds: billing.refund.Refund.total is off")
    assert "web/logout.py" in likely('File "/usr/lib/python3/site-packages/web/logout.py", line 3, in logout')
    assert likely("see docs/setup.md", []) == ["docs/setup.md"]
    assert not any("refund" in path for path in likely("a refund. Then the invoice"))


def test_modules_lie_where_their_package_does() -> None:
    past = [session("e", "Move the sources", "src/shop/cart.py", "src/shop/till.py")]
    assert "src/shop/stock.py" in likely("shop.stock is slow", past)
