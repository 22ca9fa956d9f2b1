"""`python -m queryable`: the command-line tool."""

from queryable.cli.app import main

if __name__ == "__main__":
    main()
