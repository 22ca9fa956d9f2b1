"""Reading /proc."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from bench.proc import (
    busy_seconds,
    children,
    cpu_seconds,
    open_files,
    parse_busy,
    parse_kb,
    parse_stat,
    peak_rss_mb,
    pss_mb,
    threads,
)


def test_stat_of_a_process_whose_name_looks_like_fields() -> None:
    line = "42 (a ) R 1 (b) S 1 42 41 0 -1 4194304 9 8 7 6 100 20 3 4 20 0 5 0 777 1 2"
    assert parse_stat(line) == (41, 100 + 20 + 3 + 4)


def test_kilobytes_by_name() -> None:
    text = "VmPeak:\t  900 kB\nVmHWM:\t   123 kB\nVmRSS:\t 100 kB\n"
    assert parse_kb(text, "VmHWM") == 123
    assert parse_kb(text, "Vm") == 0


def test_busy_excludes_idle_and_waiting_and_counts_guests_once() -> None:
    assert parse_busy("cpu  1 2 4 1000 2000 8 16 32 500 500") == 63


def test_session_of_a_child_spends_cpu_and_has_memory() -> None:
    # a session of its own, as servers have, so that other processes do not count
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    try:
        machine = busy_seconds()
        deadline = time.monotonic() + 30
        while cpu_seconds(child.pid) < 0.1:
            assert child.poll() is None
            assert time.monotonic() < deadline, "30 s of work took no CPU time"
            time.sleep(0.02)
        assert busy_seconds() > machine
        assert pss_mb(child.pid) > 1
        assert peak_rss_mb(child.pid) > 1
        assert threads(child.pid) == 1
        assert child.pid in children(os.getpid())
        assert open_files(child.pid) >= 3
    finally:
        child.kill()
        child.wait()
    assert cpu_seconds(child.pid) == threads(child.pid) == open_files(child.pid) == 0
