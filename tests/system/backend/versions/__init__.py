"""Versions of a view."""
