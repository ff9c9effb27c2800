"""`penstock up` with nodes that only look like nodes: `python -m tests.support.fake_penstock_up up …`."""

from __future__ import annotations

import functools
import sys

from penstock import __main__
from penstock.supervisor import start

NODE = (sys.executable, "-m", "tests.support.fake_penstock_node", "--config")
SUCCESSOR = (sys.executable, "-m", "tests.support.fake_penstock_up", "up", "--adopt", "--data")


if __name__ == "__main__":
    for name in ("run_cluster", "run_successor"):
        setattr(start, name, functools.partial(getattr(start, name), command=NODE))
    __main__.main()
