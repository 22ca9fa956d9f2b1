"""Kinds of store: how records are stored, and which queries are possible.

Each kind is one module and one line in `registry`. The rest of the code never checks which kind a
view has, but calls the view's `Kind`. A kind reads through a `Reader` and does no I/O of its own.
"""
