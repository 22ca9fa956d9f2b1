"""Checks that a checkpoint belongs to the view that continues it.

``view.json`` in a view's checkpoint folder names the view, its topics, its state version and its
rule. Rule: a view is started only after ``check.check_view``.
"""
