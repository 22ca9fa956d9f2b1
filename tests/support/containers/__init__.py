"""A Docker engine and deployments of docker-compose.yml, for tests/containers."""
