"""Conditions on entries, and the fields that an answer has of them."""
