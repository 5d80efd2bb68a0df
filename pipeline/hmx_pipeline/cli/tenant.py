"""`hmx tenant`: what an operator sets for a tenant, by an event in the log, and what is set.

Enters: a tenant and a setting with its value. Leaves: an event in the log (`set`); or, read from there, each setting
with its time and operator (`show`).
"""

import getpass
import os
import socket
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hmx_pipeline.cli.console import OUT, AsJson, as_typed, fail, plain, print_json, saying, table
from hmx_pipeline.contracts.ids import too_long
from hmx_pipeline.contracts.keys import CONTROL_TENANT
from hmx_pipeline.settings import Settings

if TYPE_CHECKING:
    from hmx_pipeline.contracts.retention import Retention

group: Final = typer.Typer(no_args_is_help=True)


@group.command("set")
def set_(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tenant.")],
    setting: Annotated[
        str,
        typer.Argument(
            metavar="SETTING=VALUE",
            help="sharing=subjects, sharing=team, trusted_agents=AGENT,AGENT or retention=CLASS:DAYSd,sessions:COUNT.",
        ),
    ],
) -> None:
    """Sets whether the subjects of a tenant share what they state, which agents it trusts, or how long it keeps what.

    `subjects`, the default: facts and rules are private to the subject in whose session they were stated, until three
    subjects state the same. `team`: all subjects share them, except what is about somebody's own things.

    `trusted_agents`: typed events of these agents, such as context.policy, state rules and facts for all subjects, and
    outrank users. Those of other agents count like an assistant's words. An empty value trusts no agent.

    `retention`: what is older than DAYS leaves memory, of `all`, `episodes`, `artifacts`, `knowledge` or an event type;
    `sessions` keeps the latest COUNT. All policies are given at once; an empty value keeps everything from here on.
    `hmx retention plan` shows beforehand what would leave. What has left does not come back.

    A setting is an event in the log, so it survives a rebuild; the last one counts. The event names who has set it: the
    user and the machine.

    Exit code: 0 set, 1 it is not in the log, 2 no such setting.

    Example: hmx tenant set acme sharing=team

    Example: hmx tenant set acme trusted_agents=deployer,release-bot

    Example: hmx tenant set acme retention=all:365d,tool_result:30d,sessions:5000
    """
    from pydantic import ValidationError

    from hmx_pipeline.contracts.evidence import TenantSettings
    from hmx_pipeline.kafka.control_producer import append_retention, append_settings

    if not name or too_long(name) or name == CONTROL_TENANT:
        fail(f"{name} is no tenant", code=2)
    field, equals, value = setting.partition("=")
    if field == "retention" and equals:
        append_retention(Settings.load(), retention_in(name, value), _operator())
        _say(name, field, value)
        return
    told = [agent for agent in value.split(",") if agent] if field == "trusted_agents" else value
    try:
        given = TenantSettings.model_validate({"tenant_id": name, field: told})
    except ValidationError:
        given = None
    known = field in ("sharing", "trusted_agents")
    if not known or not equals or given is None or any(map(too_long, given.trusted_agents or ())):
        fail(f"{setting} is no setting: say sharing=, trusted_agents= or retention=", code=2)
    append_settings(Settings.load(), given, _operator())
    _say(name, field, value)


@group.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tenant.")],
    as_json: AsJson = False,
) -> None:
    """Shows what is set for a tenant, when it was set and by whom. It reads the tenant's partition of the log.

    Exit code: 0 shown, 1 Kafka does not answer. Example: hmx tenant show acme
    """
    from hmx_pipeline.queries.tenant_query import UNSET, tenant_settings

    with saying("reading", in_terminal=True) as say:
        found = tenant_settings(Settings.load(), name, say)
    if as_json:
        print_json([one.model_dump() for one in found])
        return
    rows = [(one.setting, one.value or "-", one.set_at or "-", one.set_by or "-") for one in found]
    OUT.print(table(f"Tenant {plain(name)}", ("setting", "value", "set at", "by"), rows))
    if all(one.value == UNSET.get(one.setting) for one in found) and _is_unknown(name):
        OUT.print(f"memory holds nothing of a tenant {plain(name)}, and nothing is set for it", soft_wrap=True)


def _is_unknown(name: str) -> bool:
    """Where memory can be asked."""
    from hmx_pipeline.queries.pipeline_status import explained
    from hmx_pipeline.store.fetch import Store

    tenants = explained(lambda: Store.open(Settings.load()).tenants())
    return not isinstance(tenants, str) and name not in tenants


def _operator() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user has no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def retention_in(name: str, policies: str) -> "Retention":
    """Reads policies; exits with one line if they are none."""
    from hmx_pipeline.contracts.event_types import UNKNOWN_TYPE, event_type, namespaced
    from hmx_pipeline.contracts.retention import CLASSES, Retention

    try:
        given = Retention.told(name, policies)
    except ValueError as error:
        fail(f"{policies} is no retention ({plain(str(error).splitlines()[0])}): say CLASS:DAYSd,sessions:COUNT", 2)
    for one in given.days or ():
        if one not in CLASSES and not namespaced(one) and event_type(one) is UNKNOWN_TYPE:
            fail(f"{one} is no event type, and none of {', '.join(CLASSES)}", 2)
    return given


def _say(name: str, field: str, value: str) -> None:
    told = f"{plain(name)}: {field} is {plain(value) or 'empty'} from here on"
    OUT.print(as_typed(f"{told}; `hmx wait` returns once memory says so"), soft_wrap=True)
