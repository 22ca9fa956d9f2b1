"""Reading /proc."""

from __future__ import annotations

import os
import time

from bench.proc import (
    busy_seconds,
    cpu_seconds,
    parse_busy,
    parse_kb,
    parse_stat,
    peak_rss_mb,
    pss_mb,
)


def test_stat_of_a_process_with_a_nasty_name() -> None:
    line = "42 (a ) R 1 (b) S 1 42 41 0 -1 4194304 9 8 7 6 100 20 3 4 20 0 5 0 777 1 2"
    stat = parse_stat(line)
    assert stat.session == 41
    assert stat.ticks == 100 + 20 + 3 + 4


def test_kilobytes_by_name() -> None:
    text = "VmPeak:\t  900 kB\nVmHWM:\t   123 kB\nVmRSS:\t 100 kB\n"
    assert parse_kb(text, "VmHWM") == 123
    assert parse_kb(text, "Vm") == 0


def test_busy_leaves_out_idle_waiting_and_guests_counted_twice() -> None:
    assert parse_busy("cpu  1 2 4 1000 2000 8 16 32 500 500") == 63


def test_own_session_spends_cpu_and_has_memory() -> None:
    session = os.getsid(0)
    before, machine = cpu_seconds(session), busy_seconds()
    deadline = time.monotonic() + 20
    while cpu_seconds(session) <= before:
        assert time.monotonic() < deadline, "20 s of work took no CPU time"
    assert busy_seconds() > machine
    assert pss_mb(session) > 1
    assert peak_rss_mb(session) > 1
