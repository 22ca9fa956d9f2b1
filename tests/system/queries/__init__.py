"""Queries to real backends, directly and through nginx."""
