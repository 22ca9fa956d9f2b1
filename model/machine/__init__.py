"""What the machine or the container offers to a process, and how to install what is missing.

It reads files of the kernel.
"""
