"""Forked processes: what tests rely on, as of any other process."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.commands import penstock
from tests.support.fork_server import fork
from tests.support.managed_process import environment_with


def test_arguments_exit_code_and_output() -> None:
    assert penstock("--version").lines[0].startswith("penstock")
    wrong = penstock("topics", "nonsense")
    assert (wrong.code, wrong.out) == (2, "")
    assert "nonsense" in wrong.err


def test_environment_and_folder(tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text("nonsense = 1\n")
    refused = penstock("broker", "--config", "bad.toml", cwd=tmp_path)
    assert "nonsense" in refused.complaint


def test_a_command_leaves_nothing_behind_for_the_next() -> None:
    first, second = penstock("topics", "--help"), penstock("topics", "--help")
    assert first == second
    assert first.code == 0


def test_files_grow_no_further_than_those_of_the_test(tmp_path: Path) -> None:
    penstock("--version")  # whoever forks is there before the limit
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (123_456_789, before[1]))
    try:
        with open(os.devnull, "r+b") as nothing:
            standard = dict.fromkeys(("stdin", "stdout", "stderr"), nothing.fileno())
            process = fork(["consume", "x"], environment_with(), cwd=tmp_path, **standard)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    limits = Path(f"/proc/{process.pid}/limits").read_text()
    process.kill()
    assert re.search(r"^Max file size +123456789 ", limits, re.MULTILINE)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_signals(tmp_path: Path, number: signal.Signals) -> None:
    with (tmp_path / "out").open("wb") as out, open(os.devnull, "rb") as nothing:
        process = fork(
            ["up", "--data", str(tmp_path / "data"), "--port", "0", "--no-http"],
            environment_with(),
            cwd=tmp_path,
            stdin=nothing.fileno(),
            stdout=out.fileno(),
            stderr=out.fileno(),
        )
    assert process.poll() is None
    assert os.readlink(f"/proc/{process.pid}/cwd") == str(tmp_path)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    with ThreadPoolExecutor() as others:
        waiting = [others.submit(process.wait) for _ in range(4)]
        process.send_signal(number)
        codes = {each.result(20) for each in waiting}
    assert codes == {process.poll()}
    assert process.wait(20) == (-signal.SIGKILL if number is signal.SIGKILL else 0)
    process.kill()  # nobody any more: nothing happens
