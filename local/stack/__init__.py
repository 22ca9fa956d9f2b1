"""All processes of a deployment on one machine: started in order, watched, and ended in order."""
