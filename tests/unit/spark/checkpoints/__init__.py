"""Checkpoints, and the required settings that they and the order of records depend on."""
