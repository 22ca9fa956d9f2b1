"""Kinds of store: what a record becomes in a store partition, and which questions it answers.

One module a kind, one line a kind in `registry`. The rest of the code never asks which kind a view
has: it asks the view's `Kind`. A kind reads through the `Reader` that it is given, and does no I/O
of its own.
"""
