"""The user data of Kafka's group protocol: what members and the group's leader send each other."""
