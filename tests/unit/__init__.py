"""Tests within the process of pytest: no broker, no Spark, no nginx, no instance of its own.

`make unit` runs them. Each takes less than half a second, or has the mark `slow`.
"""
