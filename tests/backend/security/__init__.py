"""Tokens and their keys."""
