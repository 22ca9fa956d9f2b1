"""Files with a schema of a registry, next to views.toml. Each is complete, and names the subject
and the version of its schema."""
