"""Runs the queries of all views: starts and restarts them, watches their topics, tells how far
they are.

Rule: only this package starts queries. ``supervisor`` puts the parts together.
"""
