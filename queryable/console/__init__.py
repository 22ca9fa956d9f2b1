"""`queryable`, the console: a command a module, over the client.

A module has a function that typer makes a command of, and nothing else in public; `app` lists them.
What is told to people goes to a terminal as tables; with `--json`, or into a pipe, every row is a
JSON document on a line. Results go to stdout, all else to stderr.
"""
