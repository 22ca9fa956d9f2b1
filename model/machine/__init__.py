"""What the machine or the container offers to a process. It reads files of the kernel: the rest of
`model` does no I/O."""
