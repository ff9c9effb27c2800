"""Which command lives where, and how every command ends.

Exit codes: 0 done, 1 failed with one line on stderr, 2 wrong usage. Only the module of the command that was
asked for is imported: `penstock up` does not pay for the client library, nor `produce` for the broker.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import CommandFailed, discard_output

if TYPE_CHECKING:
    from collections.abc import Sequence

MODULES = {
    "up": "penstock.cli.up",
    "broker": "penstock.cli.up",
    "gateway": "penstock.cli.gateway",
    "topics": "penstock.cli.topics",
    "produce": "penstock.cli.messages",
    "consume": "penstock.cli.messages",
    "sub": "penstock.cli.pubsub",
    "unsub": "penstock.cli.pubsub",
    "put": "penstock.cli.pubsub",
    "get": "penstock.cli.pubsub",
    "groups": "penstock.cli.groups",
    "transactions": "penstock.cli.transactions",
    "cluster": "penstock.cli.cluster",
    "flights": "penstock.cli.flights",
    "traffic": "penstock.cli.traffic",
    "demo": "penstock.cli.demo",
    "bench": "penstock.cli.bench",
}
"""The module of each command; its `register(app)` adds the command. The order is that of the help."""

TRACEBACK_VARIABLE = "PENSTOCK_TRACEBACK"
INTERRUPTED = 130
"""What Typer makes of KeyboardInterrupt."""
SHOWN_CHARACTERS_MAX = 100


def show_version(wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import PackageNotFoundError, version  # slow to import, and rarely needed

    try:
        print(f"penstock {version('penstock')}")
    except PackageNotFoundError:
        print("penstock (not installed)")
    raise typer.Exit


def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Penstock: a publish/subscribe log that speaks the Kafka protocol."""


def build(arguments: Sequence[str]) -> typer.Typer:
    """The application with the command that `arguments` name, or with all for help and for typing errors."""
    app = typer.Typer(
        add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True
    )
    app.callback()(root)
    asked = MODULES.get(arguments[0]) if arguments else None
    for module in [asked] if asked else dict.fromkeys(MODULES.values()):
        importlib.import_module(module).register(app)
    return app


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit code; expected failures end as one line on stderr."""
    try:
        code = invoke(arguments)
        flush_output()
        return code
    except CommandFailed as failure:
        complain(str(failure))
        return failure.exit_code
    except OSError as error:
        return complain(describe_os_error(error))
    except UnicodeEncodeError as error:
        # An argument that is not text in the user's encoding, or a name the terminal can't show.
        shown = ascii(error.object[:SHOWN_CHARACTERS_MAX])
        return complain(f"{shown} can not be written as {error.encoding}")
    except Exception as error:
        # A bug of Penstock: still one line, and the trace for who wants to report it.
        if os.environ.get(TRACEBACK_VARIABLE):
            traceback.print_exc()
        hint = f"{TRACEBACK_VARIABLE}=1 shows where"
        return complain(f"internal error: {type(error).__name__}: {first_line(error)} ({hint})")


def invoke(arguments: Sequence[str]) -> int:
    try:
        build(arguments)(list(arguments), prog_name="penstock", standalone_mode=True)
    except SystemExit as stop:
        if stop.code == INTERRUPTED:
            return 1
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


def flush_output() -> None:
    """Here and not at the interpreter's exit, so that a full disk is a failure like any other."""
    if sys.stdout is None:  # the caller closed it
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        discard_output()
        if not isinstance(error, BrokenPipeError):
            raise


def complain(line: str) -> int:
    if sys.stderr is not None:  # print would take stdout instead
        print(f"penstock: {line}", file=sys.stderr)
    return 1


def describe_os_error(error: OSError) -> str:
    what = error.strerror or str(error)
    return f"{error.filename}: {what}" if error.filename else what


def first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0]
