"""Starts a command with the default action for each signal, on every system."""

from __future__ import annotations

import sys
from collections.abc import Sequence

# ctypes takes most of its time, so it is imported only where it is needed
_LAUNCH = """
import os, signal, sys
if sys.argv[1] == "die-with-parent" and sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(f"cannot start {sys.argv[2]}: {error.strerror}")
"""


def launched(command: Sequence[str], *, die_with_parent: bool = False) -> list[str]:
    """The words that start ``command``.

    Otherwise it would inherit ignored signals: SIGINT if a script started this process with ``&``,
    SIGHUP after ``nohup``. A second interpreter does this before it becomes the command, because
    ``env --default-signal`` exists only in GNU's coreutils.

    With ``die_with_parent``, Linux sends the command SIGTERM when the *thread* that has started it
    ends (prctl(2), PR_SET_PDEATHSIG). Other systems cannot: there, pid files identify orphans.
    """
    mode = "die-with-parent" if die_with_parent else "live-on"
    return [sys.executable, "-I", "-S", "-c", _LAUNCH, mode, *command]
