"""Files with a schema of a registry, next to views.toml: each is complete, and says which version
of which subject it has."""
