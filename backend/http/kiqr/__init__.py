"""KIQR's generic REST dialect, for the clients that it has."""
