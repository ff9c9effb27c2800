"""Gateways of other kinds: without topics, with tokens, without brokers, without an admin endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser import accessibility
from tests.support.broker import BrokerProcess
from tests.support.browser import REFUSED, UNAVAILABLE
from tests.support.gateway import GatewayProcess
from tests.support.topics import create_topic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.browser.conftest import OpenConsole

READER, ADMIN = "only-for-looking", "for-doing-everything"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Without topics, and with a gateway."""
    with BrokerProcess(
        tmp_path_factory.mktemp("broker"), "--storage", "memory", with_gateway=True
    ) as process:
        yield process


def test_an_empty_cluster(open_console: OpenConsole, broker: BrokerProcess) -> None:
    console = open_console(broker.http)
    for name, words in {
        "overview": "The cluster is empty",
        "traffic": "There is no heat map yet",
        "cluster": "No topics yet",
        "topics": "no topics",
        "groups": "Nobody reads in a group yet",
    }.items():
        console.open(name)
        page = console.on(name)
        expect(page).to_contain_text(words, ignore_case=True)
        expect(page.get_by_test_id("state-empty").first).to_be_visible()
        accessibility.assert_accessible(console.page)
    console.open()
    command = console.page.locator(".command code").first
    expect(command).to_contain_text(f"--bootstrap {broker.bootstrap}")


@pytest.fixture
def guarded(broker: BrokerProcess, tmp_path: Path) -> Iterator[GatewayProcess]:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"read {READER}\nadmin {ADMIN}\n")
    options = ("--http-token-file", str(tokens))
    with GatewayProcess(tmp_path, broker.bootstrap, *options) as gateway:
        yield gateway


def test_a_gateway_that_asks_for_a_token(open_console: OpenConsole, guarded: GatewayProcess) -> None:
    console = open_console(guarded.url)
    console.watch.announce(REFUSED)
    console.open("topics")
    banner = console.find("state-disconnected")
    expect(banner).to_contain_text("asks for a token")
    banner.get_by_role("link", name="Enter a token").click()
    console.on("settings")

    enter_token(console, "not-one-that-it-knows")
    expect(banner).to_contain_text("not known")
    enter_token(console, READER)
    expect(banner).to_have_count(0)

    console.go("topics")
    console.find("create-topic").click()
    console.find("new-name").fill("mine")
    console.find("create-submit").click()
    expect(console.find("dialog").get_by_role("alert")).to_contain_text("takes a token for write")
    console.page.keyboard.press("Escape")

    console.go("settings")
    enter_token(console, ADMIN)
    console.go("topics")
    console.find("create-topic").click()
    console.find("new-name").fill("mine")
    console.find("create-submit").click()
    expect(console.page.locator("h1")).to_have_text("mine")
    console.find("produce-value").fill("with a token")
    console.find("produce-submit").click()
    expect(console.find("produce-answer")).to_contain_text("offset 0")

    kept = console.page.evaluate("[JSON.stringify(localStorage), document.cookie, location.href].join()")
    assert ADMIN not in kept, "a token is gone with its tab"
    console.page.reload()
    expect(console.find("topic-detail")).to_be_visible()


def enter_token(console, token: str) -> None:  # type: ignore[no-untyped-def]  # a Console
    console.find("token").fill(token)
    console.page.get_by_role("button", name="Use this token").click()


def test_a_gateway_without_brokers(open_console: OpenConsole, tmp_path: Path) -> None:
    options = ("--limit", "kafka_seconds_max=2")
    with GatewayProcess(tmp_path, "127.0.0.1:1", *options) as gateway:
        console = open_console(gateway.url)
        console.watch.announce(UNAVAILABLE)
        console.open()
        expect(console.find("state-disconnected")).to_contain_text("does not know the state of the cluster")
        expect(console.find("state-error")).to_be_visible()
        accessibility.assert_accessible(console.page)


def test_a_cluster_that_is_not_penstock(
    open_console: OpenConsole, broker: BrokerProcess, tmp_path: Path
) -> None:
    """As far as this gateway knows: it has nobody to ask but the Kafka protocol."""
    create_topic(broker.bootstrap, "plain")
    with GatewayProcess(tmp_path, broker.bootstrap) as gateway:
        console = open_console(gateway.url)
        console.watch.announce(UNAVAILABLE)
        console.open("cluster")
        expect(console.find("broker-1")).to_be_visible()
        expect(console.find("topic-plain")).to_be_visible()
        expect(console.find("kill-1")).to_have_count(0)
        expect(console.find("timeline")).to_contain_text("not available")
        console.open()
        expect(console.on("overview").get_by_role("link", name="plain")).to_be_visible()
