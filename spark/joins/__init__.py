"""Joins of tables that change: the result follows every change of every table."""

from spark.joins.facts import LOG_ORDER, Reference, Table, joined, merged

__all__ = ["LOG_ORDER", "Reference", "Table", "joined", "merged"]
