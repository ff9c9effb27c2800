from __future__ import annotations

from penstock.broker.node_status import process_age_s
from penstock.broker.start_phases import StartPhases


def test_each_phase_counts_from_the_one_before() -> None:
    now = 10.0
    phases = StartPhases(0.5, lambda: now)
    now = 10.25
    phases.passed("until registered")
    now = 11.25
    phases.passed("until in service")
    assert phases.seconds == {"to load": 0.5, "until registered": 0.25, "until in service": 1.0}


def test_the_age_of_this_process() -> None:
    assert process_age_s() > 0
