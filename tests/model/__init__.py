"""What backend, client, Spark and the local stack agree on."""
