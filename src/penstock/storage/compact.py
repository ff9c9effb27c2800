"""Compaction in its own process: `python -m penstock.storage.compact`, a plan in, a result out, as JSON."""

from __future__ import annotations

import sys

from penstock.storage.compaction import CompactionPlan, run_compaction
from penstock.storage.errors import StorageError


def main() -> int:
    try:
        result = run_compaction(CompactionPlan.from_json(sys.stdin.read()))
    except StorageError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(result.to_json())
    return 0


if __name__ == "__main__":
    sys.exit(main())
