from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.broker import node_status
from penstock.broker.node_status import NodeStatus, is_alive, process_state
from tests.support.wait import wait_until


def write(folder: Path) -> None:
    node_status.write(folder, node_id=7, kafka="127.0.0.1:9092", http="http://127.0.0.1:1", started_at_ms=5)


def test_there_while_the_node_serves(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    assert node_status.read(folder) is None
    write(folder)
    own = process_state(os.getpid())
    assert own is not None
    assert node_status.read(folder) == NodeStatus(
        os.getpid(), own.started, 7, "127.0.0.1:9092", "http://127.0.0.1:1", 5
    )
    assert os.listdir(folder) == ["node.json"]
    node_status.remove(folder)
    assert node_status.read(folder) is None
    node_status.remove(folder)


def test_without_an_endpoint(tmp_path: Path) -> None:
    node_status.write(tmp_path, node_id=7, kafka="a:1", http=None, started_at_ms=5)
    status = node_status.read(tmp_path)
    assert status is not None
    assert status.http is None


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"pid": "x"}', '{"pid": 1}'])
def test_a_damaged_file_tells_of_nobody(tmp_path: Path, content: str) -> None:
    (tmp_path / "node.json").write_text(content)
    assert node_status.read(tmp_path) is None


def test_a_pid_that_is_somebody_else_s_by_now(tmp_path: Path) -> None:
    write(tmp_path)
    told = json.loads((tmp_path / "node.json").read_text())
    for changed in ({"process_started": told["process_started"] - 1}, {"pid": 2**22 + 1}, {"pid": 0}):
        (tmp_path / "node.json").write_text(json.dumps(told | changed))
        assert node_status.read(tmp_path) is None


def test_a_process_from_its_start_to_its_end() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        state = process_state(process.pid)
        assert state is not None
        assert is_alive(process.pid, state.started)
        assert not is_alive(process.pid, state.started + 1)
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: (found := process_state(process.pid)) and found.paused, "a paused process")
        process.send_signal(signal.SIGCONT)
        wait_until(
            lambda: (found := process_state(process.pid)) and not found.paused, "a process that goes on"
        )
        process.kill()
        # It stays as a zombie until its parent asks for it, and is dead all the same.
        wait_until(lambda: process_state(process.pid) is None, "the end of the process")
        assert Path(f"/proc/{process.pid}").exists()


def test_a_program_of_any_name(tmp_path: Path) -> None:
    script = tmp_path / "a) R 1 (b"
    script.symlink_to(sys.executable)
    with subprocess.Popen([str(script), "-c", "input()"], stdin=subprocess.PIPE) as process:
        state = process_state(process.pid)
        assert state is not None
        assert is_alive(process.pid, state.started)
        process.kill()
