"""Spark's processes: their sizes, the executors, and how the processes end.

`sizing` is pure. This package does not know views.
"""
