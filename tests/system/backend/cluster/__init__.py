"""Membership, placement, and communication between instances."""
