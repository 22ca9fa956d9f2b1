"""Requests for keys of other instances."""
