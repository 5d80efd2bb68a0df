"""`hmx tenant`: what an operator sets for a tenant, by an event in the log."""

from typing import Annotated, Final

import typer

from hmx_pipeline.cli.console import OUT, fail, plain
from hmx_pipeline.contracts.ids import too_long
from hmx_pipeline.contracts.keys import CONTROL_TENANT
from hmx_pipeline.settings import Settings

group: Final = typer.Typer(no_args_is_help=True, help="Sets what the subjects of a tenant share, and whom it trusts.")


@group.command("set")
def set_(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tenant.")],
    setting: Annotated[
        str,
        typer.Argument(metavar="SETTING=VALUE", help="sharing=subjects, sharing=team or trusted_agents=AGENT,AGENT."),
    ],
) -> None:
    """Sets whether the subjects of a tenant share what they state, or which agents the tenant trusts.

    `subjects`, the default: facts and rules are private to the subject in whose session they were stated, until three
    subjects state the same. `team`: all subjects share them, except what is about somebody's own things.

    `trusted_agents`: typed events of these agents, such as context.policy, state rules and facts for all subjects, and
    outrank users. Those of other agents count like an assistant's words. An empty value trusts no agent.

    A setting is an event in the log, so it survives a rebuild; the last one counts.

    Exit code: 0 set, 1 it is not in the log, 2 no such setting.

    Example: hmx tenant set acme sharing=team

    Example: hmx tenant set acme trusted_agents=deployer,release-bot
    """
    from pydantic import ValidationError

    from hmx_pipeline.contracts.evidence import TenantSettings
    from hmx_pipeline.kafka.control_producer import append_settings

    if not name or too_long(name) or name == CONTROL_TENANT:
        fail(f"{name} is no tenant", code=2)
    field, equals, value = setting.partition("=")
    told = [agent for agent in value.split(",") if agent] if field == "trusted_agents" else value
    try:
        given = TenantSettings.model_validate({"tenant_id": name, field: told})
    except ValidationError:
        given = None
    known = field in ("sharing", "trusted_agents")
    if not known or not equals or given is None or any(map(too_long, given.trusted_agents or ())):
        fail(f"{setting} is no setting: say sharing=subjects, sharing=team or trusted_agents=AGENT,AGENT", code=2)
    append_settings(Settings.load(), given)
    OUT.print(f"{plain(name)}: {field} is {value} from here on; `hmx wait` returns once memory says so", soft_wrap=True)
