"""Spark's processes: how large they are, which there are, and how they end.

`sizing` is pure. Nothing here knows views.
"""
