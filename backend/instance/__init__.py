"""One instance: its parts, its settings, and what follows the group, versions and deployments."""
