"""Checkpoints that belong to a view, its rule and its state version."""
