"""Faults, made from the console and seen in it: leaders and gateways die, brokers hang, no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.support.browser import NO_GATEWAY, NO_NETWORK, UNAVAILABLE
from tests.support.topics import create_topic, fill
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from tests.support.browser import Console
    from tests.support.supervised import SupervisedCluster


@pytest.fixture(scope="module")
def cluster(cluster: SupervisedCluster) -> SupervisedCluster:
    create_topic(cluster.bootstrap, "orders", 1)
    fill(cluster.bootstrap, "orders", [b"one", b"two"])
    return cluster


def leader(cluster: SupervisedCluster) -> int:
    (topic,) = (each for each in cluster.status()["topics"] if each["name"] == "orders")
    return int(topic["partitions"][0]["leader"] or 0)


def wait_for_health(cluster: SupervisedCluster) -> None:
    """A test begins with all in sync, whatever the one before did."""

    def is_well() -> bool:
        told = cluster.status()
        if "orders" not in [topic["name"] for topic in told["topics"]]:
            return False  # the supervisor hears of it a moment later
        partitions = [partition for topic in told["topics"] for partition in topic["partitions"]]
        return all(broker["state"] == "running" for broker in told["brokers"]) and all(
            len(partition["isr"]) == len(partition["replicas"]) for partition in partitions
        )

    wait_until(is_well, "a cluster that is well", timeout_s=60)


def test_a_leader_is_killed_and_another_elected(console: Console, cluster: SupervisedCluster) -> None:
    console.watch.announce(UNAVAILABLE)
    wait_for_health(cluster)
    console.open("cluster")
    killed, pid = leader(cluster), cluster.node_pid(leader(cluster))
    timeline = console.find("timeline")
    expect(timeline.get_by_text("live")).to_be_visible()
    elections = timeline.get_by_test_id("event-leader_elected")
    before = elections.filter(has_text="orders").count()

    console.find(f"kill-{killed}").click()
    expect(console.find("dialog")).to_contain_text("SIGKILL")
    console.confirm()
    expect(console.find("notice-good")).to_contain_text("SIGKILL")

    expect(elections.filter(has_text="orders").nth(before)).to_be_visible()
    assert wait_until(lambda: leader(cluster), "a leader") != killed
    cluster.wait_for_new_pid(killed, pid)
    expect(console.find(f"broker-{killed}")).to_contain_text(f"process {cluster.node_pid(killed)}")
    expect(console.find(f"broker-{killed}")).to_contain_text("running")
    expect(console.find("topic-orders")).to_contain_text("in sync")


def test_a_question_that_is_answered_with_no_kills_nobody(
    console: Console, cluster: SupervisedCluster
) -> None:
    wait_for_health(cluster)
    pids = cluster.node_pids()
    console.open("cluster")
    console.find("kill-1").click()
    console.find("dialog").get_by_role("button", name="Cancel").click()
    expect(console.find("dialog")).to_have_count(0)
    console.find("kill-controller").click()
    console.page.keyboard.press("Escape")
    expect(console.find("dialog")).to_have_count(0)
    assert cluster.node_pids() == pids


def test_a_broker_is_paused_and_resumed(console: Console, cluster: SupervisedCluster) -> None:
    wait_for_health(cluster)
    follower = next(each for each in (1, 2, 3) if each != leader(cluster))
    pid = cluster.node_pid(follower)
    console.open("cluster")
    console.find(f"pause-{follower}").click()
    console.confirm()
    expect(console.find(f"broker-{follower}")).to_contain_text("paused")
    console.find(f"resume-{follower}").click()
    expect(console.find(f"broker-{follower}")).to_contain_text("running")
    expect(console.find(f"pause-{follower}")).to_be_visible()
    assert cluster.node_pid(follower) == pid, "it is the same process"


def test_a_network_that_is_away_and_comes_back(console: Console, cluster: SupervisedCluster) -> None:
    console.watch.announce(NO_NETWORK)
    wait_for_health(cluster)
    console.open()
    expect(console.on("overview")).to_contain_text("3 of 3")
    console.context.set_offline(True)
    banner = console.find("state-disconnected")
    expect(banner).to_contain_text("Disconnected")
    expect(console.on("overview")).to_contain_text("3 of 3")  # what was known stays
    expect(console.page.locator("[data-stale=true]").first).to_be_visible()
    console.go("topics")
    expect(banner).to_be_visible()
    banner.get_by_role("button", name="Try now").click()
    expect(banner).to_be_visible()
    console.context.set_offline(False)
    expect(banner).to_have_count(0)
    expect(console.on("topics").get_by_role("link", name="orders")).to_be_visible()


def test_a_gateway_that_is_killed_and_started_again(console: Console, cluster: SupervisedCluster) -> None:
    console.watch.announce(NO_GATEWAY)
    console.watch.announce(UNAVAILABLE)
    wait_for_health(cluster)
    console.open("cluster")
    pid = cluster.told_pid("gateway")
    expect(console.find("node-gateway")).to_contain_text(f"pid {pid}")
    console.find("kill-gateway").click()
    console.confirm()
    # The next one may be there before anybody misses it. What is shown meanwhile: see the test above.
    expect(console.find("node-gateway")).not_to_contain_text(f"pid {pid}")
    expect(console.find("state-disconnected")).to_have_count(0)
    expect(console.find("timeline").get_by_text("live")).to_be_visible()
    fill(cluster.bootstrap, "orders", [b"three"])
    console.open("topics", "orders")
    expect(console.find("messages").locator("li").first).to_contain_text("three")


def test_a_page_whose_code_does_not_come(console: Console) -> None:
    """As after the gateway was replaced by one with another console."""
    console.watch.announce(NO_GATEWAY)
    console.page.route("**/console/assets/traffic-*.js", lambda route: route.abort("connectionrefused"))
    console.open()
    console.on("overview")
    console.find("nav-traffic").click()
    expect(console.find("state-error")).to_be_visible()
    console.page.unroute("**/console/assets/traffic-*.js")
    console.find("state-error").get_by_role("button", name="Try again").click()
    console.on("traffic")
