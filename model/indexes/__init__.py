"""Secondary indexes of views: how they are declared, and the bytes of their keys."""
