"""Kinds of store: how the entries of each are laid out, rendered and expired."""
