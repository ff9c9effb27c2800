"""Every promise has a test that is there, and tests/README.md says which."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.promises import (
    PROMISES,
    README,
    Promise,
    missing_tests,
    names_in,
    read,
    readme,
)

if TYPE_CHECKING:
    from pathlib import Path

AGAIN = "run `python -m tests.support.promises`"


@pytest.fixture(scope="module")
def promises() -> list[Promise]:
    return read(PROMISES.read_text(encoding="utf-8"))


def test_every_test_that_shows_a_promise_is_there(promises: list[Promise]) -> None:
    missing = missing_tests(promises)
    assert missing == [], f"tests/promises.toml names tests that are gone: {', '.join(missing)}"


def test_each_part_of_the_mission_is_promised(promises: list[Promise]) -> None:
    sources = [promise.source for promise in promises]
    assert {f"mission {part}" for part in "ABCDE"} <= set(sources)
    assert sources == sorted(sources, key=list(dict.fromkeys(sources)).index), "sources stay together"


def test_the_readme_is_what_the_promises_make(promises: list[Promise]) -> None:
    assert README.read_text(encoding="utf-8") == readme(promises), AGAIN


def test_a_test_that_is_gone_is_named(tmp_path: Path) -> None:
    file = tmp_path / "tests" / "test_a.py"
    file.parent.mkdir()
    file.write_text("def test_here(): ...\n")
    names = ("tests/test_a.py::test_here", "tests/test_a.py::test_gone", "tests/test_b.py::test_here")
    assert missing_tests([Promise("x", "y", names)], tmp_path) == list(names[1:])


def test_what_counts_as_a_test(tmp_path: Path) -> None:
    file = tmp_path / "test_a.py"
    file.write_text(
        "def test_plain():\n    def test_inner(): ...\n"
        "async def test_coroutine(): ...\n"
        "def helper(): ...\n"
        "class TestClass:\n    def test_method(self): ...\n    def helper(self): ...\n"
        "class Machine: ...\n"
        "TestMachine = Machine.TestCase\n"
        "TestMachine.settings = None\n"
        "Tests = 3\n"
        "# def test_comment(): ...\n"
    )
    names = {"test_plain", "test_coroutine", "TestClass", "TestClass::test_method", "TestMachine"}
    assert names_in(file) == names


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ('source = "x"\npromise = "y"', "either at least one test, or not yet"),
        ('source = "x"\npromise = "y"\ntests = []', "either at least one test, or not yet"),
        ('source = "x"\npromise = "y"\ntests = ["a::b"]\nnot_yet = "z"', "either at least one test"),
        ('promise = "y"\ntests = ["a::b"]', "has words and a source"),
        ('source = "x"\npromise = "y"\ntest = ["a::b"]', r"unknown \['test'\]"),
    ],
)
def test_what_is_no_promise_is_refused(entry: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read(f"[[promise]]\n{entry}\n")


def test_a_promise_is_made_once() -> None:
    entry = '[[promise]]\nsource = "x"\npromise = "y"\ntests = ["a::b"]\n'
    with pytest.raises(ValueError, match="promised twice"):
        read(entry * 2)


def test_the_table_has_words_tests_and_what_is_not_yet() -> None:
    made = [Promise("mission A", "a | b", ("tests/x.py::test_y",)), Promise("mission A", "c", (), "later")]
    lines = readme(made).splitlines()
    assert "### Mission A" in lines
    assert r"| a \| b | `x.py::test_y` |" in lines
    assert "| c | not yet: later |" in lines
