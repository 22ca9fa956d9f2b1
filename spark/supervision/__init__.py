"""Runs the queries of all views: starts and restarts them, checks their topics, reports their
progress.

Rule: only this package starts queries. ``supervisor`` connects the modules.
"""
