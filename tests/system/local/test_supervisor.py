import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from local import process_handles, processes
from local.errors import LocalError
from local.process_handles import open_if_same, start_time
from local.stack.run_folder import background_marker, ended_in_background
from local.stack.supervisor import Supervisor, is_running, recorded, stop_recorded
from local.waiting import wait_until

SLEEPER = [sys.executable, "-c", "print('up', flush=True); import signal; signal.pause()"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)\n"
    "while True: signal.pause()",
]

PARENT = [
    sys.executable,
    "-c",
    "import subprocess, signal\n"
    f"p = subprocess.Popen({STUBBORN!r})\n"
    "print(p.pid, 'up', flush=True); signal.pause()",
]


@pytest.fixture(autouse=True, params=["Linux", "another system"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """On another system, processes are identified by ps, and Python has no pidfd and no waitid."""
    if request.param != "Linux":
        monkeypatch.delattr(os, "pidfd_open")
        monkeypatch.delattr(os, "waitid")
        monkeypatch.setattr(process_handles, "PROC", Path("/no-proc"))
        monkeypatch.setattr(processes, "PROC", Path("/no-proc"))
    return str(request.param)


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Supervisor]:
    supervisor = Supervisor(tmp_path)
    yield supervisor
    supervisor.stop(list(supervisor.children))


def log(run_dir: Path, name: str) -> str:
    return (run_dir / "logs" / f"{name}.log").read_text()


def wait_up(run_dir: Path, name: str) -> None:
    wait_until(lambda: "up" in log(run_dir, name), 20, f"{name} to be up")


def has_ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_a_child_is_ended_and_removed(children: Supervisor, tmp_path: Path) -> None:
    child = children.start("one", SLEEPER)
    wait_up(tmp_path, "one")
    children.check()
    assert os.getsid(child.process.pid) == child.process.pid != os.getsid(0)
    children.stop(["one"])
    assert child.process.returncode == -signal.SIGTERM
    assert not children.children
    assert not list(tmp_path.glob("*.pid"))


def test_a_child_that_died_is_named_with_its_last_lines(children: Supervisor) -> None:
    children.start("fine", SLEEPER)
    script = "import sys; print('half way'); sys.exit('no such file')"
    child = children.start("broken", [sys.executable, "-c", script])
    child.process.wait(20)
    with pytest.raises(LocalError, match=r"(?s)^broken ended with status 1;.*no such file"):
        children.check()
    with pytest.raises(LocalError, match="broken ended"):
        children.wait_until(lambda: False, 20, "nothing")


def test_a_killed_child_is_named_with_the_signal(children: Supervisor) -> None:
    child = children.start("one", SLEEPER)
    child.process.kill()
    child.process.wait(20)
    with pytest.raises(LocalError, match="one ended with signal SIGKILL"):
        children.check()


def test_a_child_that_ignores_sigterm_is_killed_after_the_grace_period(
    children: Supervisor, tmp_path: Path
) -> None:
    child = children.start("stubborn", STUBBORN, grace=0.2)
    wait_up(tmp_path, "stubborn")
    children.stop(["stubborn"])
    assert child.process.returncode == -signal.SIGKILL


def test_a_stopped_child_is_ended_with_sigterm(children: Supervisor, tmp_path: Path) -> None:
    child = children.start("one", SLEEPER)
    wait_up(tmp_path, "one")
    child.process.send_signal(signal.SIGSTOP)
    children.stop(["one"])
    assert child.process.returncode == -signal.SIGTERM


def grandchild_of(run_dir: Path) -> int:
    """The pid, once PARENT has started it."""
    wait_until(lambda: log(run_dir, "parent").count("up") == 2, 20, "both to be up")
    return next(int(word) for word in log(run_dir, "parent").split() if word.isdigit())


def test_the_other_processes_of_a_childs_session_are_ended(
    children: Supervisor, tmp_path: Path
) -> None:
    children.start("parent", PARENT)
    grandchild = grandchild_of(tmp_path)
    children.stop(["parent"])
    wait_until(lambda: has_ended(grandchild), 20, "the grandchild to end")


def test_they_are_ended_also_after_the_child_has_ended(
    children: Supervisor, tmp_path: Path
) -> None:
    """The workers of nginx keep its port."""
    child = children.start("parent", PARENT)
    grandchild = grandchild_of(tmp_path)
    child.process.kill()
    wait_until(children.exits, 20, "the child to end")
    assert "parent ended with signal SIGKILL" in children.exits()["parent"]
    assert not has_ended(grandchild)
    children.stop(["parent"])
    wait_until(lambda: has_ended(grandchild), 20, "the grandchild to end")


def test_a_later_command_ends_them_too(tmp_path: Path, system: str) -> None:
    if system != "Linux":
        pytest.skip("without /proc, a later command finds only processes with a pid file")
    supervisor = Supervisor(tmp_path, die_with_parent=False)
    child = supervisor.start("parent", PARENT)
    supervisor.release()
    grandchild = grandchild_of(tmp_path)
    child.process.kill()
    child.process.wait(20)
    [found] = recorded(tmp_path).values()
    assert not is_running(found), "only the rest of it is"
    background_marker(tmp_path).write_text("parent")
    assert ended_in_background(tmp_path) == ["parent"]
    assert stop_recorded(tmp_path, ["parent"]) == ["parent"]
    wait_until(lambda: has_ended(grandchild), 20, "the grandchild to end")
    assert recorded(tmp_path) == {}
    assert not list(tmp_path.glob("*.pid"))


def test_a_group_with_the_pid_of_a_stale_file_is_not_ended(tmp_path: Path) -> None:
    """Its output is not in the folder: the pid was used again."""
    with subprocess.Popen(PARENT, stdout=subprocess.PIPE, start_new_session=True) as parent:
        assert parent.stdout is not None
        try:
            ups = [parent.stdout.readline().split() for _ in range(2)]
            parent.kill()
            parent.wait(20)
            stale = {"pid": parent.pid, "started": "earlier", "grace": 1}
            (tmp_path / "one.pid").write_text(json.dumps(stale))
            assert stop_recorded(tmp_path, ["one"]) == []
            [grandchild] = [int(words[0]) for words in ups if len(words) == 2]
            assert not has_ended(grandchild)
        finally:
            os.killpg(parent.pid, signal.SIGKILL)


def test_children_end_with_a_killed_parent(tmp_path: Path) -> None:
    script = (
        "import signal; from pathlib import Path; from local.stack.supervisor import Supervisor\n"
        f"child = Supervisor(Path({str(tmp_path)!r})).start('one', {SLEEPER!r})\n"
        "print(child.process.pid, flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        wait_up(tmp_path, "one")
        parent.kill()
    wait_until(lambda: has_ended(pid), 20, "the orphan to end")
    assert recorded(tmp_path) == {}


def test_a_later_command_ends_processes_in_the_background(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path, die_with_parent=False)
    child = supervisor.start("one", SLEEPER)
    wait_up(tmp_path, "one")
    supervisor.release()
    assert recorded(tmp_path)["one"].pid == child.process.pid
    assert stop_recorded(tmp_path, ["one", "never-started"]) == ["one"]
    assert child.process.wait(20) == -signal.SIGTERM
    assert not list(tmp_path.glob("*.pid"))


def test_another_process_with_the_pid_of_a_stale_file_is_not_ended(tmp_path: Path) -> None:
    with subprocess.Popen(SLEEPER, stdout=subprocess.PIPE) as other:
        try:
            stale = {"pid": other.pid, "started": "earlier", "grace": 1}
            (tmp_path / "one.pid").write_text(json.dumps(stale))
            assert stop_recorded(tmp_path, ["one"]) == []
            assert not (tmp_path / "one.pid").exists()
            assert other.poll() is None
        finally:
            other.terminate()


def test_a_damaged_pid_file_is_removed(tmp_path: Path) -> None:
    (tmp_path / "one.pid").write_text("{")
    assert recorded(tmp_path) == {}
    assert not (tmp_path / "one.pid").exists()


def test_a_process_that_has_ended_is_never_the_same(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        started = start_time(process.pid)
    assert started is not None
    assert open_if_same(process.pid, started) is None


def test_a_command_that_is_missing_is_named(children: Supervisor, tmp_path: Path) -> None:
    child = children.start("one", [str(tmp_path / "missing")])
    assert child.process.wait(20) != 0
    with pytest.raises(LocalError, match=f"{tmp_path}/missing"):
        children.check()


def test_a_child_does_not_inherit_ignored_signals(tmp_path: Path) -> None:
    """nohup ignores SIGHUP, and `&` in a script SIGINT."""
    show = [sys.executable, "-c", "print(open('/proc/self/status').read())"]
    script = (
        "import signal; from pathlib import Path; from local.processes import spawn\n"
        "for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):\n"
        "    signal.signal(number, signal.SIG_IGN)\n"
        f"spawn({show!r}, Path({str(tmp_path / 'log')!r})).wait(20)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    [line] = [each for each in (tmp_path / "log").read_text().splitlines() if "SigIgn" in each]
    ignored = int(line.split()[1], 16)
    # Python itself ignores SIGPIPE and SIGXFSZ
    assert [
        n for n in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT) if ignored >> (n - 1) & 1
    ] == []
