"""What functions and operators accept, and the types of their results."""
