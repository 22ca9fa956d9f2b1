"""Signals that end the programs of the local stack."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

_ENDING = """
import sys, time
from local import __main__ as main, commands

def stack(*_, **__):
    try:
        print("up", flush=True)
        while True:
            time.sleep(0.05)
    finally:
        print("ending", flush=True)
        sys.stdin.readline()
        print("ended", flush=True)

commands.up = commands.demo = stack
main.app([sys.argv[1]])
"""


@pytest.mark.parametrize("command", ["up", "demo"])
@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_only_the_first_signal_interrupts(command: str, first: signal.Signals) -> None:
    with subprocess.Popen(
        # the tests themselves may have been started by nohup
        ["env", "--default-signal", sys.executable, "-c", _ENDING, command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
            process.send_signal(first)
            assert process.stdout.readline() == "ending\n"
            for again in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                process.send_signal(again)
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "ended\n"
        finally:
            process.kill()


def test_nohup_holds() -> None:
    """A program that was started with it does not end with its terminal."""
    script = (
        "import os, signal\n"
        "from local.interrupts import interrupted_once\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "with interrupted_once():\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "    print('goes on')\n"
        "assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "goes on\n"
