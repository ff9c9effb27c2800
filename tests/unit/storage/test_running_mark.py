"""Whether the last process that used a data folder ended as it should."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.storage import running_mark

if TYPE_CHECKING:
    from pathlib import Path


class Machine:
    """Boots when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.boot_id = "first-boot"
        monkeypatch.setattr(running_mark, "current_boot_id", lambda: self.boot_id)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_a_new_folder_and_a_clean_stop(tmp_path: Path, machine: Machine) -> None:
    assert running_mark.begin(tmp_path)
    running_mark.end(tmp_path)
    machine.boot_id = "second-boot"
    assert running_mark.begin(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [running_mark.FILE]


def test_a_killed_process_leaves_the_page_cache(tmp_path: Path, machine: Machine) -> None:
    assert running_mark.begin(tmp_path)
    assert running_mark.begin(tmp_path)


def test_a_machine_that_died_takes_the_page_cache_along(tmp_path: Path, machine: Machine) -> None:
    assert running_mark.begin(tmp_path)
    machine.boot_id = "second-boot"
    assert not running_mark.begin(tmp_path)
    assert not running_mark.begin(tmp_path), "whoever found out first may have been killed before it said so"
    running_mark.end(tmp_path)
    assert running_mark.begin(tmp_path)


def test_a_machine_that_does_not_tell_its_boots_apart(tmp_path: Path, machine: Machine) -> None:
    machine.boot_id = ""
    assert running_mark.begin(tmp_path)
    assert not running_mark.begin(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe"])
def test_a_damaged_mark_counts_as_another_boot(tmp_path: Path, machine: Machine, content: bytes) -> None:
    (tmp_path / running_mark.FILE).write_bytes(content)
    assert not running_mark.begin(tmp_path)


def test_ending_twice_does_no_harm(tmp_path: Path, machine: Machine) -> None:
    running_mark.begin(tmp_path)
    running_mark.end(tmp_path)
    running_mark.end(tmp_path)
