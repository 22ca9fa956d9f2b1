"""`python -m queryable`: the console."""

from queryable.console.app import main

if __name__ == "__main__":
    main()
