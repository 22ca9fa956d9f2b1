"""Objects of Kubernetes: schemas, a command of a pod run on this machine, an API server."""
