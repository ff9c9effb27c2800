"""What a machine lacks is one line, and the tests that need it are not run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from tests.support import parts
from tests.support.managed_process import ROOT


class Item:
    def __init__(self, nodeid: str, *marks: pytest.Mark) -> None:
        self.nodeid = nodeid
        self._marks = marks

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        return [mark for mark in self._marks if mark.name == name]


def some_tests() -> list[pytest.Item]:
    kcat = pytest.mark.needs("kcat").mark
    items = [
        Item("tests/compat/test_kcat.py::test_one", kcat),
        Item("tests/compat/test_groups.py::test_two", pytest.mark.spark.mark),
        Item("tests/compat/test_kcat.py::test_three", kcat),
        Item("tests/browser/test_pages.py::test_four"),
        Item("tests/e2e/test_docs.py::test_five[browser]"),
    ]
    return cast("list[pytest.Item]", items)


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no program at all; programs go into the folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "browsers"))
    monkeypatch.delenv("PENSTOCK_ALL_PARTS", raising=False)
    return folder


def install(folder: Path, program: str) -> None:
    (folder / program).touch(mode=0o700)


def test_what_cannot_be_run_is_left_out_and_told_in_a_line_for_each_program(bare_machine: Path) -> None:
    items = some_tests()
    found = parts.left_out(items)
    assert [item.nodeid.rpartition("::")[2] for item in items] == ["test_two", "test_five[browser]"]
    about_kcat, about_chromium = parts.lines(found)
    assert about_kcat.startswith("not run, as kcat is missing: 2 tests (")
    assert about_chromium.startswith("not run, as chromium is missing: 1 test (")
    assert "apt-get install kcat" in about_kcat


@pytest.mark.parametrize("chromium", parts.CHROMIUM_NAMES)
def test_where_nothing_is_missing_everything_is_run(bare_machine: Path, chromium: str) -> None:
    install(bare_machine, "kcat")
    install(bare_machine, chromium)
    items = some_tests()
    assert not parts.left_out(items)
    assert len(items) == len(some_tests())


@pytest.mark.parametrize(("code", "is_there"), [(0, True), (127, False)], ids=["starts", "lacks libraries"])
def test_the_chromium_that_playwright_has_brought_will_do_if_it_starts(
    bare_machine: Path, code: int, is_there: bool
) -> None:
    assert not parts.is_there("chromium")
    folder = bare_machine.parent / "browsers" / "chromium_headless_shell-1234" / "chrome-linux"
    folder.mkdir(parents=True)
    assert not parts.is_there("chromium"), "half a download"
    (folder / "headless_shell").write_text(f"#!/bin/sh\nexit {code}\n")
    (folder / "headless_shell").chmod(0o700)
    assert parts.is_there("chromium") is is_there


def test_where_all_parts_must_be_there_a_missing_one_is_an_error(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_ALL_PARTS", "1")
    with pytest.raises(pytest.UsageError, match=r"kcat is missing: 2(?s:.*)chromium is missing: 1"):
        parts.left_out(some_tests())
    install(bare_machine, "kcat")
    install(bare_machine, "chromium")
    assert not parts.left_out(some_tests())


@pytest.mark.parametrize(("options", "code"), [(["--collect-only"], 0), ([], pytest.ExitCode.USAGE_ERROR)])
def test_tests_are_listed_before_their_programs_are_there(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], code: int
) -> None:
    monkeypatch.setenv("PENSTOCK_ALL_PARTS", "1")
    command = [sys.executable, "-m", "pytest", *options, "tests/compat/test_kcat.py"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert listing.returncode == code, listing.stdout + listing.stderr
    assert code == 0 or "kcat is missing" in listing.stderr
