"""A topic in the console: created, configured, written, browsed, followed, deleted; and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.support.browser import UNAVAILABLE
from tests.support.topics import create_topic, fill, fill_all

if TYPE_CHECKING:
    from tests.support.browser import Console
    from tests.support.supervised import SupervisedCluster


@pytest.fixture(scope="module")
def cluster(shared_cluster: SupervisedCluster) -> SupervisedCluster:
    create_topic(shared_cluster.bootstrap, "numbers", 2)
    fill(shared_cluster.bootstrap, "numbers", (b"number %d" % i for i in range(130)), partition=0)
    return shared_cluster


def test_the_life_of_a_topic(console: Console, cluster: SupervisedCluster) -> None:
    console.open("topics")
    console.on("topics")
    create(console, "invoices", partitions=2, config="retention.ms=3600000")
    expect(console.page.locator("h1")).to_have_text("invoices")
    config = cluster.ask("/v1/topics/invoices")["config"]
    assert config["retention.ms"]["value"] == "3600000"

    configure(console, "retention.ms", "7200000")
    assert cluster.ask("/v1/topics/invoices")["config"]["retention.ms"]["value"] == "7200000"

    write(console, "first invoice", key="customer 1")
    expect(console.find("produce-answer")).to_contain_text("at offset 0")
    partition = 0 if "partition 0" in (console.find("produce-answer").text_content() or "") else 1
    console.find("message-partition").select_option(str(partition))
    message = console.find(f"message-{partition}-0")
    expect(message).to_contain_text("first invoice")
    expect(message).to_contain_text("customer 1")

    console.watch.announce("status of 404")  # the page may ask once more while it is left
    delete(console, "invoices")
    expect(console.page.locator("h1")).to_have_text("Topics")
    expect(console.find("topic-invoices")).to_have_count(0)
    assert "invoices" not in cluster.ask("/topics")["topics"]


def create(console: Console, name: str, *, partitions: int, config: str) -> None:
    console.find("create-topic").click()
    console.find("new-name").fill(name)
    console.find("new-partitions").fill(str(partitions))
    console.find("new-config").fill(config)
    console.find("create-submit").click()
    expect(console.find("dialog")).to_have_count(0)
    expect(console.find("topic-detail")).to_be_visible()


def configure(console: Console, name: str, value: str) -> None:
    console.page.get_by_role("button", name=f"Change {name}", exact=True).click()
    console.page.get_by_label(name, exact=True).fill(value)
    console.page.keyboard.press("Enter")
    expect(console.find(f"setting-{name}")).to_contain_text(value)


def write(console: Console, value: str, *, key: str) -> None:
    console.find("produce-key").fill(key)
    console.find("produce-value").fill(value)
    console.find("produce-submit").click()


def delete(console: Console, name: str) -> None:
    console.find("delete-topic").click()
    expect(console.find("delete-submit")).to_be_disabled()
    console.find("delete-name").fill(name)
    console.find("delete-submit").click()
    expect(console.find("dialog")).to_have_count(0)


def test_pages_of_messages(console: Console) -> None:
    console.open("topics", "numbers")
    messages = console.find("messages")
    expect(messages.locator("li").first).to_contain_text("number 129")
    messages.get_by_role("button", name="Older").click()
    expect(console.find("message-0-129")).to_have_count(0)
    messages.get_by_text("Oldest", exact=True).click()
    expect(console.find("message-0-0")).to_contain_text("number 0")
    expect(messages.get_by_role("button", name="Older")).to_be_disabled()
    messages.get_by_text("Offset", exact=True).click()
    console.find("message-offset").fill("77")
    expect(console.find("message-0-77")).to_contain_text("number 77")
    console.find("message-offset").fill("seventy")
    expect(messages.get_by_role("alert")).to_be_visible()
    console.find("message-partition").select_option("1")
    messages.get_by_text("Newest", exact=True).click()
    expect(messages.get_by_test_id("state-empty")).to_contain_text("no messages")


def test_messages_as_they_come(console: Console, cluster: SupervisedCluster) -> None:
    create_topic(cluster.bootstrap, "live")
    fill(cluster.bootstrap, "live", [b"before"])
    console.open("topics", "live")
    console.find("follow").click()
    followed = console.find("followed")
    expect(followed).to_contain_text("Following")
    fill(cluster.bootstrap, "live", [b"after"])
    expect(console.find("message-0-1")).to_contain_text("after")
    expect(console.find("message-0-0")).to_have_count(0)


def test_messages_of_all_kinds(console: Console, cluster: SupervisedCluster) -> None:
    """What others write is shown as it is, and runs nowhere."""
    create_topic(cluster.bootstrap, "strange")
    script = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    fill_all(
        cluster.bootstrap,
        "strange",
        [
            {"value": script, "key": script, "headers": [(script, script.encode())]},
            {"value": b"\xff\xfe\x00\x01", "key": b"\xff"},
            {"value": None, "key": "gone"},
            {"value": "", "key": ""},
            {"value": "word " * 20_000},
            {"value": '{"deep": {"er": [1, 2, {"text": "äöü \\u2028"}]}}'},
        ],
    )
    console.open("topics", "strange")
    expect(console.find("messages").locator("li")).to_have_count(6)
    expect(console.find("message-0-0")).to_contain_text(script)
    expect(console.find("message-0-1")).to_contain_text("4 bytes, not text")
    expect(console.find("message-0-2")).to_contain_text("null")
    expect(console.find("message-0-5")).to_contain_text("äöü")
    console.find("message-0-4").get_by_role("button", name="Show all").click()
    assert console.page.title() == "strange · Penstock"


def test_refusals_are_shown_in_the_gateways_words(console: Console) -> None:
    console.watch.announce("status of 4(00|09)")
    console.open("topics")
    console.find("create-topic").click()
    console.find("new-name").fill("numbers")
    console.find("create-submit").click()
    problem = console.find("dialog").get_by_role("alert")
    expect(problem).to_contain_text("exists")
    console.find("new-name").fill("no spaces please")
    console.find("create-submit").click()
    expect(problem).not_to_contain_text("exists")
    console.page.keyboard.press("Escape")
    expect(console.find("dialog")).to_have_count(0)

    console.open("topics", "numbers")
    console.page.get_by_role("button", name="Change retention.ms", exact=True).click()
    console.page.get_by_label("retention.ms", exact=True).fill("for ever")
    console.page.keyboard.press("Enter")
    expect(console.find("topic-settings").get_by_role("alert")).to_contain_text("retention.ms")


def test_an_error_of_the_gateway_is_shown_and_passes(console: Console) -> None:
    """As when brokers are away: the page says so, keeps asking, and goes on by itself."""
    console.watch.announce(UNAVAILABLE)
    failure = '{"status": "failure", "message": "no broker answers"}'
    console.page.route("**/v1/topics/numbers", lambda route: route.fulfill(status=503, body=failure))
    console.open("topics", "numbers")
    expect(console.find("state-error")).to_contain_text("no broker answers")
    console.page.unroute("**/v1/topics/numbers")
    expect(console.find("topic-detail")).to_be_visible()
    expect(console.find("state-error")).to_have_count(0)


def test_a_page_that_waits_says_so(console: Console) -> None:
    console.page.route("**/v1/topics/numbers", lambda _route: None)  # it neither goes on nor ends
    console.open("topics", "numbers")
    expect(console.find("state-loading")).to_be_visible()
    console.page.unroute("**/v1/topics/numbers")
    expect(console.find("topic-detail")).to_be_visible()
    expect(console.find("state-loading")).to_have_count(0)
