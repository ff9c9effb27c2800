from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.supervisor import journal
from penstock.supervisor.journal import Journal

if TYPE_CHECKING:
    import pytest


def offsets(of: Journal) -> list[int]:
    return [event["offset"] for event in of.events]


def test_it_goes_on_counting_over_lives_of_the_supervisor(tmp_path: Path) -> None:
    first = Journal(tmp_path / "events")
    first.add(100, "node_started", "node 1 started", nodes=(1,))
    first.add(200, "node_ended", "node 1 ended", cause="killed by SIGKILL", nodes=(1,))
    second = Journal(tmp_path / "events")
    assert second.events == [
        {"offset": 0, "timestamp_ms": 100, "kind": "node_started", "text": "node 1 started", "nodes": [1]},
        {
            "offset": 1,
            "timestamp_ms": 200,
            "kind": "node_ended",
            "text": "node 1 ended",
            "nodes": [1],
            "cause": "killed by SIGKILL",
        },
    ]
    assert second.add(300, "node_started", "again")["offset"] == 2


def test_half_a_line_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "events"
    Journal(path).add(1, "a", "a")
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"offset": 1, "time')
    again = Journal(path)
    assert offsets(again) == [0]
    assert path.read_bytes() == whole
    assert again.add(2, "b", "b")["offset"] == 1
    assert offsets(Journal(path)) == [0, 1]


def test_it_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "EVENTS_MAX", 10)
    path = tmp_path / "events"
    kept = Journal(path)
    for number in range(100):
        kept.add(number, "a", "a")
        assert len(path.read_text().splitlines()) <= 20
        assert kept.events[-1]["offset"] == number
        assert len(kept.events) <= 20
    assert offsets(Journal(path)) == list(range(90, 100))
