from __future__ import annotations

import signal

from penstock.cli.child import undisturbed


def test_signals_are_ignored_for_a_while() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with undisturbed():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before
