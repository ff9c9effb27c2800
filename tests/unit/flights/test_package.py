"""What `penstock.flights` offers, what it costs those who want only the records, and how patient it is."""

from __future__ import annotations

import subprocess
import sys

import pytest

import penstock.flights
from penstock.client.errors import DisconnectedServerError, PenstockError
from penstock.flights.patience import PAUSE_S_MAX, TOLD_PAUSE_S_MAX, Patience


def test_names() -> None:
    for name in penstock.flights.__all__:
        assert getattr(penstock.flights, name) is not None
        assert name in dir(penstock.flights)
        if name.endswith("Error"):
            assert issubclass(getattr(penstock.flights, name), PenstockError)
    with pytest.raises(AttributeError, match="Nothing"):
        _ = penstock.flights.Nothing


@pytest.mark.parametrize(
    ("imports", "without"),
    [
        ("import penstock.flights.records, penstock.flights.chunks, penstock.flights.jobs", {"http.client"}),
        ("from penstock.flights import FlightsClient", {"confluent_kafka", "fastapi"}),
    ],
)
def test_nobody_pays_for_what_others_need(imports: str, without: set[str]) -> None:
    script = f"{imports}\nimport sys\nprint(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not ({"numpy", "pandas", "pyarrow", "pyspark"} | without) & set(result.stdout.split())


def test_pauses_grow_and_begin_anew() -> None:
    pauses: list[float] = []
    patience = Patience("it", None, pauses.append)
    for _ in range(20):
        patience.pause("no")
    assert pauses == sorted(pauses)
    assert pauses[0] < 0.1
    assert pauses[-1] == PAUSE_S_MAX
    patience.answered()
    patience.pause("no")
    assert pauses[-1] == PAUSE_S_MAX
    patience.progress()
    patience.pause("no")
    assert pauses[-1] == pauses[0]
    patience.pause("no", told_s=17)
    patience.pause("no", told_s=1e9)
    assert pauses[-2:] == [17, TOLD_PAUSE_S_MAX]


def pause_for_ever(patience: Patience) -> None:
    while True:
        patience.pause("no")


def test_time_counts_from_the_first_failure_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    told: list[str] = []

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr("time.monotonic", lambda: now)
    patience = Patience("it", 10, sleep, told.append)
    for renew in (lambda: None, patience.answered, patience.progress):
        renew()
        sleep(1_000)
        began = now
        told.clear()
        with pytest.raises(DisconnectedServerError, match="it: gave up after 10 s: no"):
            pause_for_ever(patience)
        assert now == pytest.approx(began + 10)
        assert set(told) == {"no"}
        patience.progress()
