"""Coalesced point reads."""
