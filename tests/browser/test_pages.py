"""Every page with real data: it renders, works by keyboard, in both themes and on a phone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition
from playwright.sync_api import expect

from tests.browser import accessibility
from tests.support.browser import PHONE, Console
from tests.support.topics import create_topic, fill_all
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.browser.conftest import OpenConsole
    from tests.support.supervised import SupervisedCluster

PAGES = {
    "overview": "Overview",
    "traffic": "Traffic",
    "cluster": "Cluster",
    "topics": "Topics",
    "groups": "Groups",
    "flights": "Flights",
    "settings": "Settings",
}
PLACES = [*((name,) for name in PAGES), ("topics", "orders"), ("groups", "billing")]
PARTITIONS, MESSAGES, READ = 3, 60, 6
FOCUS = f"[({accessibility.FOCUSED})(), ({accessibility.HAS_VISIBLE_FOCUS})()]"
"""Both at once: it is asked some hundred times."""
LAG = MESSAGES - PARTITIONS * READ


@pytest.fixture(scope="module")
def cluster(cluster: SupervisedCluster) -> Iterator[SupervisedCluster]:
    """With a topic, and a group that has read a part of it and is still there."""
    create_topic(cluster.bootstrap, "orders", PARTITIONS)
    messages = (
        {"key": f"customer-{i % 7}", "value": f'{{"order": {i}}}', "partition": i % PARTITIONS}
        for i in range(MESSAGES)
    )
    fill_all(cluster.bootstrap, "orders", messages)
    settings = {
        "group.id": "billing",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "client.id": "billing-1", **settings})
    consumer.subscribe(["orders"])
    wait_until(lambda: consumer.consume(1, 1.0), "a message", timeout_s=30)
    consumer.commit(
        offsets=[TopicPartition("orders", i, READ) for i in range(PARTITIONS)], asynchronous=False
    )
    yield cluster
    consumer.close()


def settled(console: Console, *path: str) -> None:
    """The page at that place, with its data."""
    console.open(*path)
    console.on(path[0])
    expect(console.find("state-loading")).to_have_count(0)


def test_the_overview(console: Console) -> None:
    console.open()
    page = console.on("overview")
    expect(page).to_contain_text("3 of 3")
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    expect(page).to_contain_text(f"{MESSAGES} messages so far")
    expect(console.find("attention")).to_have_count(0)
    expect(page.locator(".events li").first).to_be_visible()
    assert console.page.title() == "Overview · Penstock"


def test_the_cluster(console: Console) -> None:
    console.open("cluster")
    page = console.on("cluster")
    for broker in (1, 2, 3):
        expect(console.find(f"broker-{broker}")).to_contain_text("running")
    expect(page.locator(".broker-roles", has_text="active controller")).to_have_count(1)
    expect(console.find("node-gateway")).to_contain_text("running")
    expect(console.find("topic-orders")).to_contain_text("in sync")
    expect(console.find("timeline").get_by_text("live")).to_be_visible()
    expect(console.find("timeline").locator("li").filter(has_text="orders").first).to_be_visible()


def test_the_groups(console: Console) -> None:
    console.open("groups")
    row = console.find("group-billing")
    expect(row).to_contain_text("stable")
    expect(row.locator("td").last).to_have_text(str(LAG))
    row.get_by_role("link", name="billing").click()
    page = console.on("groups")
    expect(page.locator("h1")).to_have_text("billing")
    expect(page).to_contain_text("billing-1")
    expect(page.locator(".figure-value")).to_have_text(str(LAG))
    expect(page.get_by_role("table", name="Lag in orders").locator("tbody tr")).to_have_count(PARTITIONS)


def test_what_is_not_there(console: Console) -> None:
    console.watch.announce("status of 40[04]")
    for path, words in (
        (("nowhere",), "There is no such page"),
        (("topics", "no-such-topic"), "There is no topic"),
        (("groups", "no-such-group"), "There is no group"),
    ):
        console.open(*path)
        expect(console.page.locator("main")).to_contain_text(words)
        expect(console.find("state-empty")).to_be_visible()
    console.open("topics", "%E0%A4%A", "x")  # not UTF-8
    expect(console.page.locator("h1")).to_be_visible()


def test_each_page_by_the_navigation(console: Console) -> None:
    console.open()
    for name, title in PAGES.items():
        page = console.go(name)
        expect(page.locator("h1")).to_have_text(title)
        expect(console.find(f"nav-{name}")).to_have_attribute("aria-current", "page")
        expect(console.page.locator("[aria-current=page]")).to_have_count(1)
    console.page.go_back()
    console.on("flights")
    console.page.reload()
    console.on("flights")


def test_by_keyboard_alone(console: Console) -> None:
    console.open()
    console.on("overview")
    keyboard = console.page.keyboard
    keyboard.press("Tab")
    expect(console.page.locator(":focus")).to_have_text("Skip to the page")
    keyboard.press("Enter")
    expect(console.page.locator("main")).to_be_focused()
    console.open("overview")
    console.page.reload()
    console.on("overview")
    for _ in range(20):
        keyboard.press("Tab")
        if console.find("nav-cluster").evaluate("each => each === document.activeElement"):
            break
    expect(console.find("nav-cluster")).to_be_focused()
    keyboard.press("Enter")
    console.on("cluster")
    console.find("kill-2").focus()
    keyboard.press("Enter")
    expect(console.find("dialog")).to_be_visible()
    inside = "each => each.contains(document.activeElement)"
    for _ in range(8):
        keyboard.press("Tab")
        focused = console.page.evaluate("document.activeElement === document.body")
        assert focused or console.find("dialog").evaluate(inside), "the focus leaves the question"
    keyboard.press("Escape")
    expect(console.find("dialog")).to_have_count(0)
    expect(console.find("kill-2")).to_be_focused()


def test_the_focus_can_be_seen_everywhere(console: Console) -> None:
    for path in PLACES:
        console.page.goto("about:blank")  # so that the first Tab begins at the beginning
        settled(console, *path)
        seen: set[str] = set()
        for _ in range(60):
            console.page.keyboard.press("Tab")
            focused, is_visible = console.page.evaluate(FOCUS)
            if focused == "" or focused in seen:
                break
            seen.add(focused)
            assert is_visible, f"on {path}: {focused}"
        assert len(seen) >= 9, f"{path} has more to go to than {seen}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_accessible(open_console: OpenConsole, cluster: SupervisedCluster, scheme: str) -> None:
    console = open_console(cluster.http, color_scheme=scheme)
    for path in PLACES:
        settled(console, *path)
        accessibility.assert_accessible(console.page)
    settled(console, "cluster")
    console.find("kill-1").click()
    expect(console.find("dialog")).to_be_visible()
    accessibility.assert_accessible(console.page)


def test_on_a_phone(open_console: OpenConsole, cluster: SupervisedCluster) -> None:
    console = open_console(cluster.http, viewport=PHONE, has_touch=True, is_mobile=True)
    for path in PLACES:
        settled(console, *path)
        assert accessibility.wider_than_screen(console.page) == [], path
        assert accessibility.small_targets(console.page) == [], path
    console.open("overview")
    console.on("overview")
    expect(console.find("nav-topics")).not_to_be_visible()
    menu = console.page.get_by_role("button", name="Menu")
    menu.click()
    expect(menu).to_have_attribute("aria-expanded", "true")
    assert accessibility.wider_than_screen(console.page) == []
    console.go("topics")
    expect(console.find("nav-topics")).not_to_be_visible()


def ground(console: Console) -> str:
    found: str = console.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return found


def test_light_and_dark(open_console: OpenConsole, cluster: SupervisedCluster) -> None:
    console = open_console(cluster.http, color_scheme="light")
    console.open("settings")
    console.on("settings")
    light = ground(console)
    console.find("theme-dark").check()
    dark = ground(console)
    assert light != dark
    console.page.reload()
    console.on("settings")
    expect(console.find("theme-dark")).to_be_checked()
    assert ground(console) == dark, "a choice is remembered"
    console.find("theme-system").check()
    assert ground(console) == light
    console.page.emulate_media(color_scheme="dark")
    assert ground(console) == dark, "the system's choice is followed as it changes"


def test_nothing_is_loaded_from_elsewhere(console: Console) -> None:
    asked: list[str] = []
    console.page.on("request", lambda request: asked.append(request.url))
    for name in PAGES:
        settled(console, name)
    elsewhere = [url for url in asked if not url.startswith((console.address, "blob:", "data:"))]
    assert elsewhere == []
    assert any("/v1/cluster" in url for url in asked)
