from __future__ import annotations

from pathlib import Path

import pytest

from penstock.demo import plan
from penstock.demo.plan import Addresses, Part, Places

PLACES = Places(Path("/demo"))
ADDRESSES = Addresses(port=9092, http_port=8080)


def parts() -> dict[str, Part]:
    return {part.name: part for part in plan.parts(PLACES, ADDRESSES, cars=50, rate=2.5, run="r")}


def test_the_map_comes_first_and_flights_only_when_it_is_live() -> None:
    waits = {name: part.after for name, part in parts().items()}
    assert waits == {
        "cluster": (),
        "heatmap": ("cluster",),
        "cars": ("cluster",),
        "flights-data": ("map",),
        "flights-service": ("map",),
        "flights": ("flights-data", "flights-service"),
    }


def test_everybody_is_told_where_the_brokers_will_be() -> None:
    brokers = "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    assert ADDRESSES.bootstrap == brokers
    for name in ("cars", "heatmap", "flights-service"):
        command = parts()[name].command
        assert command[command.index("--bootstrap") + 1] == brokers


def test_all_that_is_written_is_in_the_folder() -> None:
    for name, option in (
        ("cluster", "--data"), ("heatmap", "--checkpoint"), ("flights-data", "--out"),
        ("flights-service", "--data"), ("flights", "--out"),
    ):  # fmt: skip
        command = parts()[name].command
        assert command[command.index(option) + 1].startswith("/demo/")


def test_the_options_of_the_user_reach_the_cars() -> None:
    command = parts()["cars"].command
    assert command[command.index("--cars") + 1] == "50"
    assert command[command.index("--rate") + 1] == "2.5"


@pytest.mark.parametrize(
    ("line", "sent", "rate"),
    [
        ("sent 1200 (400 per second)", "1200", "400"),
        ("  sent 1,200 (1,999.5 per second)", "1,200", "1,999.5"),
    ],
)
def test_the_line_of_the_cars(line: str, sent: str, rate: str) -> None:
    found = plan.CARS_SENT.search(line)
    assert found is not None
    assert (found["sent"], found["rate"]) == (sent, rate)
