"""The command-line tool `queryable`: one module per command in `commands`.

On a terminal, commands print tables. With `--json`, or when stdout is not a terminal, they print
one JSON document per line. Results go to stdout, everything else to stderr.
"""
