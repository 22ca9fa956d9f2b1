"""The commands of `queryable`, one module per command or family of commands.

Each module has a Typer app. `queryable.cli.app` has the list of the modules.
"""
