"""Commands for the views of a job."""
