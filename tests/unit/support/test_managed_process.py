"""A child process of a test: it is waited for without polling, and what it printed is told when it fails."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.managed_process import ManagedProcess
from tests.support.processes import stat_fields
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

SERVE = "echo starting; echo ready now; exec sleep 60"
STOPPED = "T"


class Shell(ManagedProcess):
    def __init__(self, folder: Path, script: str, **options: Any) -> None:
        super().__init__("the shell", folder / "log", **options)
        self.script = script

    def command(self) -> list[str]:
        return ["sh", "-c", self.script]


def test_the_ready_line_is_waited_for(tmp_path: Path) -> None:
    with Shell(tmp_path, SERVE) as shell:
        assert shell.wait_ready() == "ready now"
        assert shell.running
        assert shell.exit_code is None
    assert shell.exit_code == -signal.SIGTERM


def test_half_a_line_is_no_ready_line(tmp_path: Path) -> None:
    """The script prints the rest once it can read from a pipe."""
    os.mkfifo(tmp_path / "go")
    shell = Shell(tmp_path, "printf 'ready h'; read _ < go; echo alf; exec sleep 60", cwd=tmp_path)
    shell.spawn()
    shell.wait_until(lambda: shell.log == "ready h", "half a line", timeout_s=20)
    with pytest.raises(AssertionError, match="not within"):
        shell.wait_for_line(shell.says_ready, "a whole line", timeout_s=0.1)
    (tmp_path / "go").write_text("\n")
    assert shell.wait_ready() == "ready half"
    shell.kill()


def test_one_that_ends_before_it_is_ready_shows_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the shell ended with 3") as failed:
        Shell(tmp_path, "echo no room >&2; exit 3").start()
    assert "no room" in failed.value.__notes__[0]


def test_one_that_is_never_ready_is_killed(tmp_path: Path) -> None:
    shell = Shell(tmp_path, "echo hello; exec sleep 60", ready_s_max=0.2)
    with pytest.raises(AssertionError, match="the ready line of the shell: not within"):
        shell.start()
    assert shell.exit_code == -signal.SIGKILL


def test_an_end_is_noticed_at_once(tmp_path: Path) -> None:
    shell = Shell(tmp_path, "exit 7")
    shell.spawn()
    assert shell.wait() == 7


def test_one_that_does_not_end_is_killed(tmp_path: Path) -> None:
    with Shell(tmp_path, f"trap '' TERM; {SERVE}") as shell:
        with pytest.raises(AssertionError, match="the end of the shell: not within"):
            shell.terminate(timeout_s=0.2)
        assert shell.exit_code == -signal.SIGKILL


def test_a_restart_has_a_log_of_its_own(tmp_path: Path) -> None:
    with Shell(tmp_path, "echo ready $$; exec sleep 60") as shell:
        first = shell.log
        assert shell.restart(clean=False).log == f"ready {shell.pid}\n" != first
    assert (tmp_path / "log").read_text() == first + shell.log


def test_errors_have_a_file_of_their_own_and_are_waited_for(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    shell = Shell(tmp_path, "echo out; echo err >&2; exec sleep 60", errors=errors)
    shell.spawn()
    shell.wait_until(lambda: "err" in errors.read_text(), "a line of errors", timeout_s=20)
    shell.kill()
    assert shell.log == "out\n"


def test_a_paused_process_goes_on(tmp_path: Path) -> None:
    with Shell(tmp_path, SERVE) as shell:
        shell.pause()
        wait_until(lambda: (stat_fields(shell.pid) or [""])[0] == STOPPED, "a paused process")
        shell.resume()
        wait_until(lambda: (stat_fields(shell.pid) or [""])[0] != STOPPED, "a process that goes on")


def test_a_group_is_killed_as_a_whole(tmp_path: Path) -> None:
    with Shell(tmp_path, "sleep 60 & echo ready $!; wait", own_group=True) as shell:
        child = int(shell.wait_ready().split()[1])
        shell.kill()
        wait_until(lambda: (stat_fields(child) or ["Z"])[0] == "Z", "the end of the child")


def test_nothing_is_polled(tmp_path: Path) -> None:
    """The condition is asked when there is something new, and not in between."""
    asked = 0

    def is_done() -> bool:
        nonlocal asked
        asked += 1
        return "done" in shell.log

    with Shell(tmp_path, "echo ready now; sleep 1; echo done; exec sleep 60") as shell:
        shell.wait_until(is_done, "the last line", timeout_s=20)
        assert asked <= 2
