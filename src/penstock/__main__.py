"""The `penstock` command."""

from __future__ import annotations

import sys

# kio imports Hypothesis when it is installed, to offer strategies to tests. In a developer's environment
# that would cost every broker and command 1.5 s and 200 MB. None makes the import fail as if it were absent.
sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]  # None is the documented "not there"


def main() -> None:
    from penstock.cli.app import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
