from __future__ import annotations

from penstock.supervisor.supervisor import readiness


def test_a_node_that_serves_says_what_its_start_was_made_of() -> None:
    assert readiness({"to load": 0.5, "until registered": 0.25}) == (
        "serves, 0.75 s after its start",
        "0.50 s to load, 0.25 s until registered",
    )
    assert readiness({}) == ("serves", None)
