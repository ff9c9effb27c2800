from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, NoReturn

import pytest
import typer

from penstock.cli import app
from penstock.cli.options import parse_settings
from penstock.cli.output import CommandFailed

if TYPE_CHECKING:
    from collections.abc import Callable


def run_with(command: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> int:
    def build(_arguments: list[str]) -> typer.Typer:
        made = typer.Typer(pretty_exceptions_enable=False)
        made.command()(command)
        return made

    monkeypatch.setattr(app, "build", build)
    return app.run([])


def test_a_command_that_returns_has_done_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_with(lambda: None, monkeypatch) == 0


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (CommandFailed("no luck"), "penstock: no luck\n"),
        (
            FileNotFoundError(2, "No such file or directory", "a.txt"),
            "penstock: a.txt: No such file or directory\n",
        ),
        (OSError(98, "cannot listen on a:1: taken"), "penstock: cannot listen on a:1: taken\n"),
        (
            UnicodeEncodeError("utf-8", "a\udcff", 1, 2, "surrogates not allowed"),
            "penstock: 'a\\udcff' can not be written as utf-8\n",
        ),
        (
            ZeroDivisionError("first\nsecond"),
            "penstock: internal error: ZeroDivisionError: first (PENSTOCK_TRACEBACK=1 shows where)\n",
        ),
    ],
)
def test_a_failure_is_one_line(
    error: Exception, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> NoReturn:
        raise error

    assert run_with(command, monkeypatch) == 1
    assert capsys.readouterr().err == line


def test_an_interrupt_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> NoReturn:
        raise KeyboardInterrupt

    assert run_with(command, monkeypatch) == 1
    assert capsys.readouterr() == ("", "")


def test_a_failure_without_anywhere_to_say_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> NoReturn:
        monkeypatch.setattr("sys.stderr", None)
        raise CommandFailed("no luck")

    assert run_with(command, monkeypatch) == 1
    assert capsys.readouterr().out == ""


def test_a_trace_on_demand(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PENSTOCK_TRACEBACK", "1")

    def command() -> NoReturn:
        raise ZeroDivisionError

    assert run_with(command, monkeypatch) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["nosuch"],
        ["consume"],
        ["topics", "nosuch"],
        ["topics", "create", "a", "--config", "x"],
        ["up", "--port", "x"],
        ["up", "--flush", "never"],
        ["up", "--storage", "tape"],
        ["up", "--host", ""],
        ["up", "--brokers", "0"],
        ["up", "--controllers", "0"],
        ["cluster", "kill"],
        ["cluster", "kill", "everything"],
        ["cluster", "kill", "1", "--signal", "HUP"],
        ["cluster", "trace"],
        ["consume", "a", "--from", "middle"],
        ["consume", "a", "--from", "9" * 5_000],
        ["consume", "a", "--group", ""],
        ["consume", ""],
        ["produce", ""],
        ["produce", "x\udcff"],
        ["consume", "a", "--group", "x\udcff"],
        ["groups", "describe", "x\udcff"],
        ["groups", "reset", "g", "--topic", "x\udcff", "--to", "end"],
        ["topics", "create", "x\udcff"],
        ["topics", "create", "x", "--config", "a=\udcff"],
        ["topics", "delete", "a", "x\udcff"],
        ["topics", "config", "a", "--delete", "x\udcff"],
        ["groups", "describe", ""],
        ["groups", "reset", "g", "--topic", "t", "--to", "9" * 5_000],
        ["topics", "create", "a", "--replicas", "100000"],
        ["topics", "create", "a", "--partitions", "9999999999"],
    ],
)
def test_wrong_usage_exits_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(arguments) == 2
    assert "Usage: penstock" in capsys.readouterr().err


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in app.MODULES)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["up", "--storage", "mysql://me:secret@x"],
            "an address has to be of the form postgresql://user@host:port/database",
        ),
        (
            ["up", "--storage", "postgresql://me:se:cr@et@x:port/y"],
            "the storage URL is not of the form postgresql://user@host:port/database",
        ),
    ],
)
def test_what_is_not_available_is_refused_in_one_line(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(arguments) == 1
    assert capsys.readouterr().err == f"penstock: {line}\n"


@pytest.mark.parametrize("command", ["up", "topics"])
def test_a_command_does_not_import_what_only_others_need(command: str) -> None:
    unwanted = {"up": ["confluent_kafka", "rich"], "topics": ["penstock.broker", "penstock.storage", "kio"]}
    script = (
        "import sys, penstock.__main__\n"
        "from penstock.cli.app import build\n"
        f"build([{command!r}])\n"
        f"print([name for name in {unwanted[command]!r} if name in sys.modules])\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_settings_are_pairs() -> None:
    assert parse_settings(["a=1", "b=x=y", "c="]) == {"a": "1", "b": "x=y", "c": ""}
    for wrong in ("a", "=1"):
        with pytest.raises(typer.BadParameter):
            parse_settings([wrong])
