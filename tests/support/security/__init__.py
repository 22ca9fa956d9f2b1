"""Keys, certificates, secrets and hostile requests."""
