"""Compaction in its own process: `python -m penstock.storage.compact`, a plan in, a result out, as JSON.

The process ends with the one that made the plan: nobody else would put its files in place or remove them, and
the next owner of the folder may be at work already. On Linux the system sees to it; the signal is tied to the
thread that started this process, so that has to be one that stays.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from penstock.storage.compaction import CompactionPlan, run_compaction
from penstock.storage.errors import StorageError

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def main() -> int:
    end_with_parent()
    text = sys.stdin.read()
    try:
        plan = CompactionPlan.from_json(text) if text else None
        if plan is None or os.getppid() != plan.owner:
            raise StorageError("cannot compact: the process that asked for it has gone")
        result = run_compaction(plan)
    except StorageError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(result.to_json())
    return 0


if __name__ == "__main__":
    sys.exit(main())
