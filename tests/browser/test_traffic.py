"""The traffic page: a map that MapLibre really draws, live, and what it says when something is missing."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser import accessibility
from tests.browser.city import QUADRANTS, City, colour, difference, wait_drawn, wait_shown
from tests.support.browser import NO_GATEWAY, NO_NETWORK, PHONE, REFUSED, UNAVAILABLE
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from tests.browser.conftest import OpenConsole
    from tests.support.browser import Console
    from tests.support.supervised import SupervisedCluster

EVERYWHERE = dict.fromkeys(QUADRANTS, 50)
CLEARLY = 40
"""Of 255, in one of the colours."""


@pytest.fixture(scope="module")
def cluster(shared_cluster: SupervisedCluster) -> SupervisedCluster:
    """In which no other file has cars."""
    return shared_cluster


@pytest.fixture
def has_map() -> bool:
    return True


@pytest.fixture(scope="module")
def city(cluster: SupervisedCluster) -> City:
    return City(cluster.bootstrap)


def test_a_heat_map_that_nobody_writes_any_more_and_then_somebody_does(console: Console, city: City) -> None:
    old = city.heat(EVERYWHERE, ago_ms=60_000)
    console.open("traffic")
    status = console.find("traffic-status")
    expect(status).to_have_attribute("data-state", "stale")
    wait_shown(console, old)
    expect(console.page.locator("[data-stale=true]")).to_be_visible()
    wait_shown(console, city.heat(EVERYWHERE))
    expect(status).to_have_attribute("data-state", "live")
    expect(console.page.locator("[data-stale=true]")).to_have_count(0)
    expect(console.find("total-sent")).to_have_text(f"{city.sent:,}")


def test_the_map_changes_as_cars_move(console: Console, city: City) -> None:
    city.forget()
    console.open("traffic")
    wait_shown(console, city.heat({(0, 0): 90}))
    wait_shown(console, city.heat({(0, 0): 90}, windows_later=2))
    hot, cold = colour(console, (0, 0)), colour(console, (1, 1))
    assert difference(hot, cold) > CLEARLY
    # Three windows later everybody is at the other end of the town.
    wait_shown(console, city.heat({(1, 1): 90}, windows_later=3))
    assert difference(colour(console, (1, 1)), cold) > CLEARLY
    assert difference(colour(console, (0, 0)), cold) <= CLEARLY
    rendered = console.page.evaluate("window.__penstockMap.map.queryRenderedFeatures().length")
    assert rendered > 0
    assert console.page.evaluate("window.__penstockMap.cells") == 9
    expect(console.find("busiest-cells").locator("tbody tr").first).to_be_visible()


def test_one_quadrant_goes_dark_and_comes_back(console: Console, city: City) -> None:
    city.forget()
    console.open("traffic")
    wait_shown(console, city.heat(EVERYWHERE))
    for row, col in QUADRANTS:
        expect(quadrant(console, row, col)).to_have_attribute("data-dark", "false")
    others = {place: 50 for place in QUADRANTS if place != (0, 1)}
    for _ in range(3):
        wait_shown(console, city.heat(others, windows_later=2))
    expect(quadrant(console, 0, 1)).to_have_attribute("data-dark", "true")
    for row, col in others:
        expect(quadrant(console, row, col)).to_have_attribute("data-dark", "false")
    wait_shown(console, city.heat(EVERYWHERE, windows_later=1))
    expect(quadrant(console, 0, 1)).to_have_attribute("data-dark", "false")


def quadrant(console: Console, row: int, col: int):  # type: ignore[no-untyped-def]  # a Locator
    return console.find(f"quadrant-r{row}.c{col}")


def test_speed_themes_and_the_keyboard(console: Console, city: City) -> None:
    console.open("traffic")
    wait_shown(console, city.heat(EVERYWHERE))
    heat = colour(console, (0, 0))
    console.page.get_by_role("radio", name="Speed").check()
    wait_until(lambda: difference(colour(console, (0, 0)), heat) > CLEARLY, "another colour for speed")
    console.page.get_by_role("radio", name="Heat").check()

    ground = colour(console, (0, 0))[:3]
    console.page.emulate_media(color_scheme="dark")
    wait_drawn(console)
    wait_shown(console, city.heat({(1, 1): 50}, windows_later=3))
    wait_until(lambda: difference(colour(console, (0, 0))[:3], ground) > CLEARLY, "a dark ground")

    console.page.get_by_role("region", name="Map of the city").focus()
    console.page.keyboard.press("Enter")
    expect(console.find("cell-note")).to_contain_text("Cell")
    console.page.keyboard.press("Escape")
    expect(console.find("cell-note")).to_have_count(0)
    zoom = console.page.evaluate("window.__penstockMap.map.getZoom()")
    console.page.keyboard.press("+")
    console.page.wait_for_function("zoom => window.__penstockMap.map.getZoom() > zoom", arg=zoom)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_live_page_is_accessible(
    open_console: OpenConsole, cluster: SupervisedCluster, city: City, scheme: str
) -> None:
    console = open_console(cluster.http, color_scheme=scheme)
    console.open("traffic")
    wait_shown(console, city.heat(EVERYWHERE))
    accessibility.assert_accessible(console.page)


def test_the_live_page_on_a_phone(open_console: OpenConsole, cluster: SupervisedCluster, city: City) -> None:
    console = open_console(cluster.http, viewport=PHONE, has_touch=True, is_mobile=True)
    console.open("traffic")
    wait_shown(console, city.heat(EVERYWHERE))
    assert accessibility.wider_than_screen(console.page) == []
    assert accessibility.small_targets(console.page) == []


def test_the_map_goes_on_after_a_break_of_the_network(console: Console, city: City) -> None:
    console.watch.announce(NO_NETWORK)
    console.open("traffic")
    wait_shown(console, city.heat(EVERYWHERE))
    console.context.set_offline(True)
    expect(console.find("state-disconnected")).to_be_visible()
    missed = city.heat(EVERYWHERE)
    console.context.set_offline(False)
    expect(console.find("state-disconnected")).to_have_count(0)
    wait_shown(console, missed)
    expect(console.find("traffic-status")).to_have_attribute("data-state", "live")


def test_the_map_goes_on_with_another_gateway(
    console: Console, cluster: SupervisedCluster, city: City
) -> None:
    """Which knows nothing of the cookie that the first one gave."""
    for passing in (NO_GATEWAY, UNAVAILABLE, REFUSED):
        console.watch.announce(passing)
    console.open("traffic")
    wait_shown(console, city.heat(EVERYWHERE))
    pid = cluster.told_pid("gateway")
    os.kill(pid, signal.SIGKILL)  # the next one may be there before the page says that this one is away
    wait_shown(console, city.heat(EVERYWHERE))
    expect(console.find("state-disconnected")).to_have_count(0)
    assert cluster.told_pid("gateway") != pid
    expect(console.find("traffic-status")).to_have_attribute("data-state", "live")


def test_a_browser_without_webgl(open_console: OpenConsole, cluster: SupervisedCluster, city: City) -> None:
    console = open_console(cluster.http, with_webgl=False)
    newest = city.heat(EVERYWHERE)
    console.open("traffic")
    expect(console.find("map-plain")).to_be_visible()
    wait_shown(console, newest, by_webgl=False)
    accessibility.assert_accessible(console.page)


def test_tiles_come_from_where_the_user_says(console: Console, city: City) -> None:
    pixel = b"\x89PNG\r\n\x1a\n" + bytes.fromhex(
        "0000000d4948445200000001000000010806000000"
        "1f15c4890000000d49444154789c63103209fb0f000294019c1d5b465f0000000049454e44ae426082"
    )
    asked: list[str] = []

    def answer(route) -> None:  # type: ignore[no-untyped-def]  # Playwright's Route
        asked.append(route.request.url)
        route.fulfill(body=pixel, content_type="image/png", headers={"access-control-allow-origin": "*"})

    console.page.route("https://tiles.example/**", answer)
    console.open("settings")
    console.find("tile-url").fill("http://tiles.example/{z}/{x}/{y}.png")
    expect(console.page.get_by_role("button", name="Save")).to_be_disabled()
    console.find("tile-url").fill("https://tiles.example/{z}/{x}/{y}.png")
    console.page.get_by_role("button", name="Save").click()
    assert asked == []
    console.go("traffic")
    wait_shown(console, city.heat(EVERYWHERE))
    assert asked
    assert all(url.startswith("https://tiles.example/") and "{" not in url for url in asked)
