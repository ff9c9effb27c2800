"""The `penstock` command.

Signals: SIGTERM is to every command what SIGINT is, so that whatever it started or opened is cleaned up. A
node handles both itself once it runs. Told to stop while it still starts, it has acknowledged nothing, and
simply ends: a clean stop like any other.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

# kio imports Hypothesis when it is installed, to offer strategies to tests. In a developer's environment
# that would cost every broker and command 1.5 s and 200 MB. None makes the import fail as if it were absent.
sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]  # None is the documented "not there"

NODES = ("up", "broker")


def main() -> None:
    try:
        prepare_signals(sys.argv[1:])
        from penstock.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 1
    sys.exit(code)


def prepare_signals(arguments: list[str]) -> None:
    """Before anything else, since imports alone take a while."""
    if arguments and arguments[0] in NODES:
        signal.signal(signal.SIGINT, end)
        signal.signal(signal.SIGTERM, end)
    else:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def end(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)


if __name__ == "__main__":
    main()
