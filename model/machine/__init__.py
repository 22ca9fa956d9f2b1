"""What the machine or the container offers to a process. It reads files of the kernel."""
