"""Monitors the pipelines that derive views: their lag in the source topics, and their state."""
