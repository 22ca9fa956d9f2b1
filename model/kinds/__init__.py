"""Kinds of store: how records are stored, and which queries are possible.

Each kind is a module and a line in `registry`. The rest of the code calls the view's `Kind` and
does not check which kind it is. A kind reads through a `Reader` and does no I/O itself.
"""
