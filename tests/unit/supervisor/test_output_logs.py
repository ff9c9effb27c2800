from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.supervisor.folder import NodeFolder
from penstock.supervisor.output_logs import OutputLogs, keep_short
from penstock.supervisor.processes import SupervisedProcess
from tests.support.wait import wait_until

if TYPE_CHECKING:
    import pytest

BYTES_MAX = 100_000
TALKATIVE = (
    "import itertools\nfor number in itertools.count(): print(f'{number:09d}', flush=number % 100 == 0)"
)


def test_a_short_log_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert not keep_short(path)
    path.write_bytes(b"x" * BYTES_MAX)
    assert not keep_short(path, BYTES_MAX)
    assert path.stat().st_size == BYTES_MAX
    assert not (tmp_path / "log.1").exists()


def test_a_long_log_becomes_the_one_before_with_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a" * BYTES_MAX + b"b" * BYTES_MAX)
    assert keep_short(path, BYTES_MAX)
    assert path.read_bytes() == b""
    assert (tmp_path / "log.1").read_bytes() == b"b" * BYTES_MAX


def test_a_process_that_never_stops_talking_fills_no_disk(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("ab") as output:
        process = subprocess.Popen([sys.executable, "-c", TALKATIVE], stdout=output)
    try:
        for _ in range(5):
            wait_until(lambda: keep_short(path, BYTES_MAX), "a log that is too long")
            assert (tmp_path / "log.1").stat().st_size == BYTES_MAX
            wait_until(lambda: path.stat().st_size > 0, "more lines")
            assert b"\0" not in path.read_bytes(), "it goes on at the beginning of the file"
    finally:
        process.kill()
        process.wait()


def test_that_it_cannot_be_shortened_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_path: Path) -> bool:
        raise OSError(28, "No space left on device")

    logs = OutputLogs()
    with monkeypatch.context() as patched:
        patched.setattr("penstock.supervisor.output_logs.keep_short", fails)
        assert not logs.keep_short(tmp_path / "log")
        assert not logs.keep_short(tmp_path / "log")
    assert len(caplog.messages) == 1
    assert "No space left" in caplog.messages[0]


def test_why_a_process_failed_is_found_after_its_log_was_emptied(tmp_path: Path) -> None:
    talk = f"print('x' * 11_000_000, flush=True); input(); {COMPLAIN}"
    fifo = tmp_path / "fifo"
    command = ["/bin/sh", "-c", f'mkfifo {fifo}; exec "$0" -c "$1" <{fifo}', sys.executable, talk]
    process = SupervisedProcess("node", NodeFolder(tmp_path), command)  # type: ignore[arg-type]
    process.start()
    path = tmp_path / "log"
    with wait_until(lambda: fifo.exists() and fifo.open("w"), "its input") as line:
        wait_until(lambda: path.stat().st_size > 11_000_000, "a long log")
        process.keep_log_short(OutputLogs())
        assert path.stat().st_size == 0
        line.write("go on\n")
    ending = wait_until(process.ending, "its end")
    assert ending.cause == "exit code 1: the disk is gone"


COMPLAIN = "import sys; sys.exit('penstock: the disk is gone')"
