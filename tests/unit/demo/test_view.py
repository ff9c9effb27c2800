from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

from rich.console import Console

from penstock.demo.course import Phase
from penstock.demo.figures import Broker, Event, Figures, Heat, Totals
from penstock.demo.screen import PLAIN_S, PlainScreen
from penstock.demo.view import Cars, View, flights_words, live_view, map_words, status_line

NAMES = ("cluster", "heatmap", "cars", "flights-data", "flights-service", "flights")
FIGURES = Figures(
    answers=True,
    controller=1,
    brokers=(Broker(1, "running", 5), Broker(2, "down", 0), Broker(3, "running", 4)),
    leaders={"r0.c0": 1, "r0.c1": None},
    heat=Heat(20, 8_500, Totals(1_010, 1_000, 0, 0, 10)),
    events=(Event(1_000, "node_ended", "node 2 ended"),),
)
SUMMARY: dict[str, Any] = {
    "rows_read": 20_000,
    "queries": {"q1": 1_500, "q2": 2, "q3": 3, "q4": 4},
    "average_fare": 341.256,
    "seconds": 7.04,
}
VIEW = View(
    url="http://127.0.0.1:8080",
    up_s=75.0,
    now_ms=10_000,
    phases=dict.fromkeys(NAMES, Phase.RUNNING)
    | dict.fromkeys(("flights-data", "flights-service", "flights"), Phase.WAITING),
    figures=FIGURES,
    cars=Cars(2_000, 1_200, 1_998.4),
    is_live=True,
)


def phases(**changed: Phase) -> dict[str, Phase]:
    return {**VIEW.phases, **{name.replace("_", "-"): phase for name, phase in changed.items()}}


def drawn(view: View) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(live_view(view))
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()


def test_one_line_says_how_it_goes() -> None:
    assert status_line(VIEW) == (
        "2 of 3 brokers run; 2,000 cars, 1,998 positions per second, 1,200 sent; "
        "map 1.5 s behind, 1,000 counted, 10 malformed"
    )


def test_a_demo_that_has_just_begun() -> None:
    begun = replace(
        VIEW, phases=phases(cluster=Phase.STARTING, heatmap=Phase.STARTING, cars=Phase.WAITING),
        figures=Figures(), cars=Cars(2_000), is_live=False,
    )  # fmt: skip
    assert status_line(begun) == "starting; waiting; map Spark starts"


def test_a_dark_map_says_why() -> None:
    dark = replace(VIEW, phases=phases(heatmap=Phase.GIVEN_UP), reasons={"heatmap": "no Java"})
    assert map_words(dark) == "stays dark: no Java"
    assert "no Java" in drawn(dark)


def test_a_map_whose_job_is_started_again() -> None:
    again = replace(VIEW, phases=phases(heatmap=Phase.DOWN), reasons={"heatmap": "killed by signal 9"})
    assert map_words(again).startswith("the job is started again: killed by signal 9, 1.5 s behind")


def test_a_gateway_that_is_away() -> None:
    assert "the gateway does not answer" in status_line(
        replace(VIEW, figures=replace(FIGURES, answers=False))
    )


def test_the_flights_job_from_waiting_to_its_answers() -> None:
    steps = [
        VIEW,
        replace(VIEW, phases=phases(flights_data=Phase.STARTING)),
        replace(VIEW, phases=phases(flights_data=Phase.DONE, flights_service=Phase.STARTING)),
        replace(VIEW, phases=phases(flights_data=Phase.DONE, flights=Phase.STARTING)),
        replace(VIEW, phases=phases(flights_data=Phase.DONE, flights=Phase.DONE), flights=SUMMARY),
        replace(VIEW, phases=phases(flights_data=Phase.GIVEN_UP), reasons={"flights-data": "no space"}),
    ]
    assert [flights_words(step) for step in steps] == [
        "after the map is live",
        "20,000 itineraries are written",
        "Spark starts for the service",
        "20,000 itineraries are sent to the service, four queries about them run",
        "20,000 itineraries in 7.0 s: q1 1,500, q2 2, q3 3, q4 4, average fare 341.26",
        "not answered: no space",
    ]


def test_the_live_view_has_everything() -> None:
    shown = drawn(VIEW)
    for words in (
        "1:15", "http://127.0.0.1:8080/", "1 running leads 5, controller", "2 down leads 0", "r0.c0 → 1",
        "r0.c1 → nobody", "1,998 positions per second", "1.5 s behind", "node 2 ended",
        "penstock cluster kill leader:traffic.r0.c0 --http http://127.0.0.1:8080", "/#/cluster", "Ctrl-C",
    ):  # fmt: skip
        assert words in shown


def test_a_console_that_does_not_serve_yet_says_so() -> None:
    shown = drawn(replace(VIEW, phases=phases(cluster=Phase.STARTING), is_live=False))
    assert "http://127.0.0.1:8080/ in a moment" in shown
    assert "try:" not in shown


def test_the_live_view_says_what_it_waits_for() -> None:
    shown = drawn(replace(VIEW, doing="stopping the cars"))
    assert "stopping the cars" in shown
    assert "try:" not in shown


def test_words_in_brackets_are_not_taken_for_styles() -> None:
    dark = replace(
        VIEW, phases=phases(heatmap=Phase.GIVEN_UP), reasons={"heatmap": "pip install 'penstock[spark]'"}
    )
    assert "'penstock[spark]'" in drawn(dark)


def test_a_plain_screen_tells_how_it_goes_only_now_and_then(capsys: Any) -> None:
    now = [0.0]
    screen = PlainScreen(lambda: now[0])
    for now[0] in (1.0, PLAIN_S, PLAIN_S + 1.0, 2 * PLAIN_S):
        screen.show(VIEW)
    assert capsys.readouterr().out.splitlines() == [status_line(VIEW)] * 2


def test_a_plain_screen_tells_at_once_what_it_waits_for_and_then_rarely(capsys: Any) -> None:
    now = [0.0]
    screen = PlainScreen(lambda: now[0])
    for now[0] in (1.0, 2.0, 30.0, 31.0):
        screen.show(replace(VIEW, doing="waiting"))
    screen.show(replace(VIEW, doing="stopping"))
    assert capsys.readouterr().out.splitlines() == ["waiting", "waiting", "stopping"]
