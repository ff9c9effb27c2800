"""A signal reaches the process that is meant, or nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from penstock.signalling import WrongProcessError, is_paused_on_purpose, send_signal

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("pid", [-1, 0, 1, -12_345])
def test_no_number_of_a_group_and_not_the_first_process(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _number: sent.append(pid))
    with pytest.raises(WrongProcessError):
        send_signal(pid, signal.SIGKILL, b"")
    assert not sent


def test_only_what_has_the_mark_in_its_command() -> None:
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)", "a-mark"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline()  # a process that has only just been forked has no command yet
            with pytest.raises(WrongProcessError, match="something else"):
                send_signal(process.pid, signal.SIGTERM, b"another-mark")
            send_signal(process.pid, signal.SIGTERM, b"a-mark")
            assert process.wait(10) == -signal.SIGTERM
        finally:
            process.kill()


def test_one_whose_parent_has_not_looked_at_its_end() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(ProcessLookupError):
        send_signal(process.pid, signal.SIGTERM, b"")
    process.wait()


def test_one_that_has_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with pytest.raises(ProcessLookupError):
        send_signal(process.pid, signal.SIGTERM, b"")


def test_a_pause_on_purpose_is_told_from_a_process_that_hangs(tmp_path: Path) -> None:
    settings = tmp_path / "node.toml"
    code = "import time; print(flush=True); time.sleep(60)"
    command = [sys.executable, "-c", code, "a-mark", str(settings)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline()
            assert not is_paused_on_purpose(settings, process.pid)
            send_signal(process.pid, signal.SIGSTOP, b"a-mark")
            assert is_paused_on_purpose(settings, process.pid)
            assert not is_paused_on_purpose(settings, process.pid + 1), "of an earlier process"
            send_signal(process.pid, signal.SIGCONT, b"a-mark")
            assert not is_paused_on_purpose(settings, process.pid)
        finally:
            process.kill()
