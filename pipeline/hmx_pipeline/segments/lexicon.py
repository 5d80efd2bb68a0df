"""Word lists for intents, actions and phases of work, in general English. No tenant's words.

`LEXICON_VERSION` is part of every intent key: a changed lexicon makes other keys.
"""

from collections.abc import Mapping
from typing import Final

from hmx_pipeline.languages import of_all

LEXICON_VERSION: Final = "1"


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


PHRASES: Final[Mapping[str, str]] = {
    "roll back": "rollback", "rolled back": "rollback", "roll out": "rollout", "set up": "configure",
    "look into": "investigate", "find out": "investigate", "figure out": "investigate", "look up": "search",
    "look for": "search", "looking for": "search", "send back": "return", "give back": "return",
    "get rid of": "remove", "clean up": "refactor", "log in": "login", "sign in": "login", "sign up": "register",
    "call off": "cancel", "back up": "backup", "check in": "checkin", "shut down": "stop", "turn on": "enable",
    "turn off": "disable", "spin up": "create", "speed up": "optimize", "put back": "revert",
    "money back": "refund",
}  # fmt: skip
"""Two-word verbs, joined before stop words are dropped."""

VERBS: Final[Mapping[str, str]] = {
    "return": "return",
    "exchange": "exchange swap replace replacement trade",
    "cancel": "cancel cancellation abort terminate unsubscribe",
    "book": "book reserve",
    "pay": "pay charge",
    "transfer": "transfer",
    "deploy": "deploy deployment release rollout publish",
    "rollback": "rollback revert undo restore",
    "restart": "restart reboot reload",
    "scale": "scale resize autoscale",
    "migrate": "migrate migration port",
    "refactor": "refactor restructure rename extract simplify deduplicate",
    "review": "review audit",
    "merge": "merge rebase cherry-pick",
    "optimize": "optimize optimise tune",
    "reset": "reset unlock login",
    "register": "register enrol enroll",
    "backup": "backup snapshot",
    "rotate": "rotate renew",
    "upgrade": "upgrade downgrade bump",
    "translate": "translate",
    "summarize": "summarize summarise",
    "schedule": "schedule reschedule",
    "document": "document",
}
"""Class → verbs that give the intent by themselves."""

LIGHT_VERBS: Final[Mapping[str, str]] = {
    "modify": "modify change update edit adjust alter amend switch correct",
    "create": "create add implement write generate introduce build",
    "remove": "remove delete drop purge",
    "fix": "fix repair resolve solve debug bug",
    "test": "test",
    "configure": "configure configuration install enable disable",
    "investigate": "investigate diagnose analyze analyse explore",
    "search": "search find locate",
}
"""Class → verbs that need an object."""

WEAK: Final[Mapping[str, str]] = {
    "refund": "refund compensation compensate",
    "fix": "error fail failure failing crash broken incident outage wrong",
    "check": "check verify status show list know tell explain understand information track",
}
"""Class → words that count if nothing stronger was said."""

OBJECTS: Final[Mapping[str, str]] = {
    "address": "address",
    "payment": "payment card paypal billing invoice",
    "order": "order purchase",
    "item": "item product size color colour",
    "flight": "flight",
    "reservation": "reservation booking ticket trip",
    "passenger": "passenger",
    "baggage": "baggage bag luggage suitcase",
    "cabin": "cabin seat class",
    "account": "account profile user",
    "password": "password credential secret token key certificate",
    "database": "database db table schema sql query index",
    "service": "service server api endpoint cluster pod container",
    "test": "test spec coverage",
    "build": "build ci compile",
    "dependency": "dependency package library version",
    "config": "config setting option flag environment",
    "docs": "docs documentation readme comment changelog",
    "interface": "page button form screen dialog component",
    "branch": "branch commit tag",
    "performance": "performance latency memory cpu slow",
    "command": "command cli",
    "hook": "hook plugin",
    "function": "function method module feature",
}
"""Class → objects of light verbs."""

STOP_WORDS: Final = word_set(
    """
    a about above after again all also am an and any are as at be because been before being below between both
    but by can could did do does doing down during each few for from further had has have having he her here
    hers him his how i if in into is it its just let like me more most my need no nor not now of off on once
    only or other our out over own please same she should so some such than that the their them then there these
    they this those through to too under until up us very want was we were what when where which while who whom
    why will with would you your yours hi hello hey thanks thank help sure okay ok yes d ll m re s t ve
    """
)

PLEASANTRIES: Final = word_set(" ".join(table["words"] for table in of_all("courtesy").values()))
"""Words of courtesy and assent. A message of nothing else carries no wish."""

CHOOSING: Final = word_set(
    """
    use using choose choosing pick select take go prefer decide decision option options approach way best better
    right with
    """
)
"""Words of any question about a choice, which an option may begin with."""

READS: Final = word_set(
    """
    get list find search read fetch show view check describe query lookup look status diff grep rg glob ls cat
    head tail wc tree which stat pwd echo log logs inspect explain think calculate compute count compare
    validate verify test tests lint monitor observe ping open scroll screenshot browse navigate sleep env whoami
    ps top df du sed awk nl printf file jq less more vet tasklist taskget taskoutput webfetch websearch get-item
    analyze analyse retrieve load select peek ask wait plan todo
    """
)
"""Names of tools and commands that only read."""

PHASES: Final[Mapping[str, frozenset[str]]] = {
    "plan": word_set("plan design draft propose decide todo todowrite todo_write taskcreate taskupdate"),
    "recover": word_set("rollback revert undo restore restart retry reset recover failover"),
    "deploy": word_set("deploy release rollout publish promote ship install"),
    "report": word_set("notify report announce email mail send reply comment post message summarize document"),
    "modify": word_set(
        """
        edit write create add update modify change set patch insert replace remove delete rename move copy mkdir rm
        mv cp touch tee configure
        """
    ),
}
"""Phase of work → names of tools and commands. `READS` and `CHECKS` cover inspecting and verifying."""

CHECKS: Final = word_set(
    """
    check verify validate assert test tests lint health healthcheck monitor status probe ping smoke audit
    pytest unittest tox jest vitest mocha rspec phpunit ctest mypy ruff eslint tsc
    """
)
"""Names of tools and commands that check whether something works."""

ENDS: Final = word_set(
    """
    finished done complete completed ended end closed resolved terminated aborted cancelled session_end
    session_ended
    """
)
"""States that mean that the work is over."""

SILENT: Final = word_set(
    """
    think reflect scratchpad thought calculate plan todo todowrite todo_write taskcreate taskupdate tasklist
    """
)
"""Tools by which an agent talks to itself; they are not steps of a procedure."""
