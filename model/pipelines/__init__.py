"""Pipelines that derive views: their state, their numbers, and commands for them."""
