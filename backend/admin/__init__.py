"""What an operator sees of an instance and of the deployment: the page and its documents."""
