"""The help of the commands: groups of commands with whole sentences, arguments without types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typer.core import TyperCommand, TyperGroup

from queryable.cli.declaration.negative_numbers import with_separator

_NO_LIMIT = 1000  # characters: no summary has more, so none is cut


class Command(TyperCommand):
    """A command whose help has the names of arguments as people write them, and whose arguments may
    be negative numbers."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options: list[Any] = [
            parameter for parameter in self.get_params(ctx) if not _is_argument(parameter)
        ]
        valued = {
            name
            for option in options
            if not option.is_flag and not option.count
            for name in option.opts
        }
        return super().parse_args(ctx, with_separator(args, frozenset(valued)))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = [self.options_metavar] if self.options_metavar else []
        return pieces + [
            _usage(parameter) for parameter in self.get_params(ctx) if _is_argument(parameter)
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        params = self.get_params(ctx)
        _write_arguments(params, ctx, formatter)
        options = [
            parameter.get_help_record(ctx) for parameter in params if not _is_argument(parameter)
        ]
        with formatter.section("Options"):
            formatter.write_dl([record for record in options if record])


class Group(TyperGroup):
    """`queryable`: its commands are listed in groups, in the order of `sections`."""

    sections: Mapping[str, Sequence[str]] = {}
    """Title ► names of commands."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, names in self.sections.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            rows = [
                (name, command.get_short_help_str(_NO_LIMIT))
                for name, command in commands
                if command
            ]
            with formatter.section(title):
                formatter.write_dl(rows)


def _is_argument(param: Any) -> bool:
    return bool(param.param_type_name == "argument")


def _usage(argument: Any) -> str:
    name = _name(argument)
    return name if argument.required else f"[{name}]"


def _name(argument: Any) -> str:
    return f"{argument.metavar or argument.name.upper()}{'...' if argument.nargs != 1 else ''}"


def _write_arguments(params: Sequence[Any], ctx: Any, formatter: Any) -> None:
    """Arguments that have an explanation; the others are in the line with the usage."""
    rows = []
    for argument in filter(_is_argument, params):
        record = argument.get_help_record(ctx)
        if record is None or not argument.help:
            continue
        rows.append((_name(argument), record[1].replace("  [required]", "")))
    if rows:
        with formatter.section("Arguments"):
            formatter.write_dl(rows)
