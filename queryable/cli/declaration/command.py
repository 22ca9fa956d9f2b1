"""Makes functions commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import wraps
from inspect import Parameter, Signature, isclass, signature
from typing import Any, get_type_hints

from typer.models import CommandInfo

from queryable import Client
from queryable.cli.config import Connection
from queryable.cli.declaration.groups import OptionGroup
from queryable.cli.declaration.help import Command
from queryable.cli.exit_codes import reports_errors

COMMANDS: dict[str, list[CommandInfo]] = {}
"""The commands of each module that has been imported, by the name of the module."""


def command(
    function: Callable[..., None], settings: dict[str, Any] | None = None
) -> Callable[..., None]:
    """Decorates a function: it becomes a command of the same name, and its docstring the help. Its
    errors become a line on stderr and an exit code.

    A parameter of a subclass of OptionGroup stands for all options of the group, and one of type
    Client for a client of the deployment, which is closed at the end. `settings`: the settings of
    the parser.
    """
    run = _with_options(function)
    info = CommandInfo(cls=Command, callback=reports_errors(run), context_settings=settings)
    COMMANDS.setdefault(function.__module__, []).append(info)
    return function


def name_of(info: CommandInfo) -> str:
    """The name of a command, as people type it."""
    assert info.callback is not None
    return info.callback.__name__.replace("_", "-")


def _with_options(function: Callable[..., None]) -> Callable[..., None]:
    """The function with the options of each group as separate parameters, as typer needs them. A
    client has the options of the connection."""
    hints = get_type_hints(function, include_extras=True)
    parameters: list[Parameter] = []
    clients: list[str] = []
    groups: dict[str, tuple[type[OptionGroup], Sequence[Parameter]]] = {}
    for parameter in signature(function).parameters.values():
        hint = hints[parameter.name]
        if hint is Client:
            clients.append(parameter.name)
            hint = Connection
        if isclass(hint) and issubclass(hint, OptionGroup):
            declared = hint.declared(function.__name__)
            groups[parameter.name] = hint, declared
            parameters += declared
        else:
            parameters.append(parameter.replace(annotation=hint, kind=Parameter.KEYWORD_ONLY))

    @wraps(function)
    def run(**values: Any) -> None:
        for name, (group, declared) in groups.items():
            own = {parameter.name: values.pop(parameter.name) for parameter in declared}
            values[name] = group.from_values(function.__name__, own)
        with ExitStack() as stack:
            for name in clients:
                values[name] = stack.enter_context(values[name].client())
            function(**values)

    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
