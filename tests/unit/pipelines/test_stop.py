"""A wish to end: uttered by a signal in the middle of anything, also of the wait for it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

from penstock.cli.traffic_heatmap import stopped_by_signals
from penstock.pipelines.stop import new_stop

STORM = """
import random, signal, sys
from penstock.cli.traffic_heatmap import stopped_by_signals
for _ in range(int(sys.argv[1])):
    with stopped_by_signals() as stop:
        signal.signal(signal.SIGALRM, signal.getsignal(signal.SIGTERM))  # which a timer can send
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00001, 0.0003))
        while not stop.wait(0):
            pass
"""
SIGNALS = 2_000


def test_a_signal_in_the_middle_of_a_wait() -> None:
    """An event of `threading` hangs here: its handler waits for the lock of the wait that it interrupts."""
    subprocess.run([sys.executable, "-c", STORM, str(SIGNALS)], check=True, timeout=60)


def test_who_waits_gets_to_know_it_at_once() -> None:
    with stopped_by_signals() as stop:
        assert not stop.wait(0.01)
        assert not stop.is_set()
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGTERM))
        try:
            began = time.monotonic()
            assert stop.wait(30.0)
            assert time.monotonic() - began < 20.0
        finally:
            signal.signal(signal.SIGALRM, before)
        assert stop.is_set()
        assert stop.wait(30.0), "and ever after"


def test_it_can_be_said_more_than_once() -> None:
    with new_stop() as stop:
        for _ in range(100_000):
            stop.set()
        assert stop.wait(None)
