"""Flights in the console: files uploaded through everything, answers that appear while they come, and jobs
that fail or are deleted. The gateway is a real one; what the Spark service would write, the test writes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from penstock.flights.chunks import cut
from penstock.flights.jobs import FILES, QUERIES, Job, State
from tests.browser import accessibility
from tests.browser.flights_service import (
    FlightsStandIn,
    answered,
    fastest,
    long_ways,
    many_stopovers,
    new_job,
    received,
    route_fares,
    write_files,
)
from tests.support.browser import NO_GATEWAY, NO_NETWORK, PHONE, UNAVAILABLE
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Request

    from tests.browser.conftest import OpenConsole
    from tests.support.browser import Console
    from tests.support.supervised import SupervisedCluster

ROWS = 6_000
"""Three chunks of itineraries."""
SUMMARY = {
    "rows_read": 5_000,
    "rows_rejected": 7,
    "rejected": {"empty legId": 7},
    "left_out": {"q2": {"unknown airport": 3}},
    "average_fare": 312.25,
    "queries": {"q1": 40, "q2": 30, "q3": 2, "q4": 15},
    "seconds": 4.5,
}
CONFLICT = "status of 409"
GONE = "status of 410"


@pytest.fixture(scope="module")
def cluster(shared_cluster: SupervisedCluster) -> SupervisedCluster:
    """In which no other file has jobs."""
    return shared_cluster


@pytest.fixture(scope="module")
def service(cluster: SupervisedCluster) -> Iterator[FlightsStandIn]:
    stand_in = FlightsStandIn(cluster.bootstrap)
    yield stand_in
    stand_in.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_files(tmp_path_factory.mktemp("files"), rows=ROWS)


@pytest.fixture(scope="module")
def complete(service: FlightsStandIn) -> Job:
    """A job with all answers."""
    job = new_job(State.COMPLETE, results_partition=1, rows_rejected=7, summary=SUMMARY)
    rows = {"q1": many_stopovers(40), "q2": long_ways(30), "q3": fastest(2), "q4": route_fares(15)}
    for query, lines in rows.items():
        service.rows(job, query, lines)
    counts = {query: len(lines) for query, lines in rows.items()}
    service.ends(job, counts)
    return service.tell(answered(received(job, rows=5_000), "complete", **counts))


def test_an_empty_cluster(console: Console) -> None:
    console.open("flights")
    expect(console.find("state-empty")).to_contain_text("There are no jobs yet")
    expect(console.find("state-empty")).to_contain_text("penstock flights serve")
    expect(console.find("start-upload")).to_be_disabled()
    console.open("cluster")
    expect(console.find("node-gateway")).to_contain_text("running")
    expect(console.find("node-flights")).to_have_count(0)


def test_the_heartbeat_of_the_service(console: Console, service: FlightsStandIn) -> None:
    service.beat("starting")
    console.open("cluster")
    expect(console.find("node-flights")).to_contain_text("starting")
    service.beat()
    expect(console.find("node-flights")).to_contain_text("running")
    expect(console.find("heartbeat-flights")).to_contain_text("heard")
    expect(console.find("heartbeat-gateway")).to_contain_text("heard now")
    expect(console.find("kill-flights")).to_be_enabled()
    console.go("overview")
    expect(console.page.locator(".processes li", has_text="Flights")).to_contain_text("running")


def choose(console: Console, files: dict[str, Path]) -> None:
    for name, path in files.items():
        console.find(f"file-{name}").set_input_files(path)


def start(console: Console, files: dict[str, Path]) -> str:
    """The id of the job that is being sent."""
    console.open("flights")
    choose(console, files)
    console.find("start-upload").click()
    expect(console.find("job-detail")).to_be_visible()
    return console.page.url.rsplit("/", 1)[-1]


def assert_sent(service: FlightsStandIn, job: str, files: dict[str, Path]) -> None:
    """What is on the topics is what `penstock flights submit` would have sent."""
    for name in FILES:
        with files[name].open("rb") as file:
            wanted = list(cut(file.read))
        assert service.chunks(job, name) == (wanted, [len(wanted)])


def test_two_files_are_uploaded(console: Console, service: FlightsStandIn, files: dict[str, Path]) -> None:
    service.beat()
    job = start(console, files)
    expect(console.find("upload-phase")).to_have_attribute("data-phase", "done")
    assert_sent(service, job, files)
    assert service.requests(job) == ["create"]
    progress = console.find("upload-progress")
    assert progress.get_attribute("value") == progress.get_attribute("max")
    expect(console.find("progress-itineraries")).to_contain_text("0 of 3 messages")
    service.tell(received(Job(job, State.COMPUTING), rows=ROWS))
    expect(console.find("job-state")).to_have_attribute("data-state", "computing")
    expect(console.find("progress-itineraries")).to_contain_text("3 messages")
    expect(console.find("job-facts")).to_contain_text(f"{ROWS:,}")
    expect(console.find("upload")).to_have_count(0)
    console.go("flights")
    expect(console.find(f"job-{job}")).to_contain_text("computing")


def test_two_files_are_dropped_together(console: Console, files: dict[str, Path]) -> None:
    """And told apart by their headers."""
    console.open("flights")
    console.on("flights")
    texts = [[path.name, path.read_text()[:2_000]] for path in files.values()]
    dropped = console.page.evaluate_handle(
        """texts => {
          const found = new DataTransfer();
          for (const [name, text] of texts) found.items.add(new File([text], name));
          return found;
        }""",
        texts,
    )
    console.page.locator(".file-picker").last.dispatch_event("drop", {"dataTransfer": dropped})
    expect(console.page.locator(".file-picker.is-chosen")).to_have_count(2)
    expect(console.page.locator(".file-picker").first).to_contain_text("airports.csv")
    expect(console.find("start-upload")).to_be_enabled()


def test_a_wrong_header_is_refused_before_anything_is_sent(
    console: Console, files: dict[str, Path], tmp_path: Path
) -> None:
    asked: list[str] = []
    console.page.on("request", lambda request: asked.append(request.method))
    console.open("flights")
    wrong = tmp_path / "itineraries.csv"
    wrong.write_text("legId,startingAirport\n1,ATL\n")
    choose(console, {"airports": files["airports"], "itineraries": wrong})
    problem = console.find("problem-itineraries")
    expect(problem).to_contain_text("destinationAirport, travelDuration")
    expect(console.find("file-itineraries")).to_have_attribute("aria-invalid", "true")
    expect(console.find("start-upload")).to_be_disabled()
    console.find("file-itineraries").set_input_files(files["airports"])
    expect(problem).to_contain_text("This is the file of the airports")
    console.find("file-itineraries").set_input_files(files["itineraries"])
    expect(problem).to_have_count(0)
    expect(console.find("start-upload")).to_be_enabled()
    assert set(asked) == {"GET"}


class Break:
    """A network that breaks at one message of the itineraries, until it is mended."""

    def __init__(self, console: Console, message: int) -> None:
        console.watch.announce(NO_NETWORK)
        self.asked: list[int] = []
        self._page = console.page
        self._broken = re.compile(rf"/itineraries\?message={message}$")
        self._page.on("request", self._hear)
        self._page.route(self._broken, lambda route: route.abort("internetdisconnected"))

    def mend(self) -> None:
        self._page.unroute(self._broken)

    def _hear(self, request: Request) -> None:
        found = re.search(r"/itineraries\?message=(\d+)$", request.url)
        if found is not None:
            self.asked.append(int(found[1]))


def test_a_network_that_breaks_in_the_middle_of_an_upload(
    console: Console, service: FlightsStandIn, files: dict[str, Path]
) -> None:
    network = Break(console, 1)
    job = start(console, files)
    phase = console.find("upload-phase")
    expect(phase).to_have_attribute("data-phase", "waiting")
    expect(phase).to_contain_text("can not be reached")
    console.go("topics")  # wherever the user is, it goes on
    network.mend()
    wait_until(lambda: service.chunks(job, "itineraries")[1], "the end of the file")
    assert_sent(service, job, files)
    console.open("flights", job)
    expect(phase).to_have_attribute("data-phase", "done")
    assert network.asked.count(1) >= 2


def test_a_gateway_that_is_killed_in_the_middle_of_an_upload(
    console: Console, cluster: SupervisedCluster, service: FlightsStandIn, files: dict[str, Path]
) -> None:
    """The next one knows only what the service has told, which is nothing: all of the file is sent again."""
    for passing in (NO_GATEWAY, UNAVAILABLE, CONFLICT):
        console.watch.announce(passing)
    network = Break(console, 2)
    job = start(console, files)
    expect(console.find("upload-phase")).to_have_attribute("data-phase", "waiting")
    console.go("cluster")
    pid = cluster.told_pid("gateway")
    expect(console.find("node-gateway")).to_contain_text(f"pid {pid}")
    console.find("kill-gateway").click()
    console.confirm()
    # The next one may be there before the page says that this one is away.
    expect(console.find("node-gateway")).not_to_contain_text(f"pid {pid}")
    expect(console.find("state-disconnected")).to_have_count(0)
    network.mend()
    console.open("flights", job)
    expect(console.find("upload-phase")).to_have_attribute("data-phase", "done")
    assert network.asked[-3:] == [0, 1, 2]
    assert_sent(service, job, files)


def test_an_upload_that_is_paused_and_gone_on_with_after_a_reload(
    console: Console, service: FlightsStandIn, files: dict[str, Path], tmp_path: Path
) -> None:
    network = Break(console, 2)
    job = start(console, files)
    expect(console.find("upload-phase")).to_have_attribute("data-phase", "waiting")
    console.find("upload-pause").click()
    expect(console.find("upload-phase")).to_have_attribute("data-phase", "paused")
    network.mend()
    network.asked.clear()
    console.page.reload()
    expect(console.find("resume")).to_be_visible()
    expect(console.find("file-airports")).to_have_count(0)  # they are there
    shorter = write_files(tmp_path, rows=10)
    console.find("file-itineraries").set_input_files(shorter["itineraries"])
    console.find("resume-upload").click()
    expect(console.find("form-problem")).to_contain_text("another file")
    console.find("file-itineraries").set_input_files(files["itineraries"])
    console.find("resume-upload").click()
    expect(console.find("upload-phase")).to_have_attribute("data-phase", "done")
    assert network.asked == [2], "what was there is not sent again"
    assert_sent(service, job, files)


def test_an_upload_that_is_cancelled(
    console: Console, service: FlightsStandIn, files: dict[str, Path]
) -> None:
    console.watch.announce(GONE)  # the page may ask once more while it is left
    Break(console, 1)
    job = start(console, files)
    expect(console.find("upload-phase")).to_have_attribute("data-phase", "waiting")
    console.find("upload-cancel").click()
    console.confirm()
    expect(console.page.locator("h1")).to_have_text("Flights")
    expect(console.find(f"job-{job}")).to_have_count(0)
    assert service.requests(job) == ["create", "delete"]


def test_answers_appear_while_they_come(console: Console, service: FlightsStandIn) -> None:
    service.beat()
    job = service.tell(new_job(results_partition=2))
    console.open("flights", job.job)
    expect(console.find("result-q1")).to_contain_text("Rows appear here")

    service.rows(job, "q1", many_stopovers(4))
    job = service.tell(answered(job, "partial", q1=4))
    table = console.find("result-table").locator("tbody tr")
    expect(table).to_have_count(4)
    expect(table.first).to_contain_text("S0 · S1 · S2")
    expect(console.find("rows-q1")).to_have_text("4 so far")
    expect(console.find("rows-q4")).to_have_text("later")
    console.find("query-q4").check()
    expect(console.find("result-q4")).to_contain_text("Later")
    console.find("query-q1").check()
    expect(table).to_have_count(4)

    service.rows(job, "q1", many_stopovers(26, first=4))
    job = service.tell(answered(job, "partial", q1=30))
    expect(console.find("reading")).to_contain_text("30 rows read")
    expect(table).to_have_count(10)
    console.find("show-more").click()
    expect(table).to_have_count(30)

    lines = {"q2": long_ways(30), "q3": fastest(2), "q4": route_fares(15)}
    for query, rows in lines.items():
        service.rows(job, query, rows)
    counts = {"q1": 30} | {query: len(rows) for query, rows in lines.items()}
    service.ends(job, counts)
    job = replace(job, state=State.COMPLETE, summary=SUMMARY)
    service.tell(answered(received(job, rows=5_000), "complete", **counts))
    expect(console.find("job-state")).to_have_attribute("data-state", "complete")
    expect(console.find("reading")).to_contain_text("complete")
    expect(console.find("reading")).to_have_attribute("data-phase", "ended")
    expect(table).to_have_count(30)  # nothing is told twice, nothing folds up
    expect(console.find("resume")).to_have_count(0)


def test_rows_that_the_job_counted_before_they_came_are_shown(
    console: Console, service: FlightsStandIn
) -> None:
    """The state of the job and the rows come over two connections, and either may be first."""
    service.beat()
    job = service.tell(new_job(results_partition=2))
    console.open("flights", job.job)
    service.rows(job, "q1", many_stopovers(4))
    job = service.tell(answered(job, "partial", q1=4))
    table = console.find("result-table")
    expect(table.locator("tbody tr")).to_have_count(4)
    service.tell(answered(job, "partial", q1=30))
    expect(table).to_contain_text("the first 4 of 30 rows")
    service.rows(job, "q1", many_stopovers(26, first=4))
    expect(console.find("reading")).to_contain_text("30 rows read")
    expect(table).to_contain_text("the first 10 of 30 rows")
    expect(table.locator("tbody tr")).to_have_count(10)


def test_charts_tables_the_summary_and_downloads(console: Console, complete: Job) -> None:
    console.open("flights", complete.job)
    summary = console.find("job-summary")
    expect(summary).to_contain_text("312.25")
    expect(summary.get_by_role("row", name="unknown airport")).to_contain_text("left out of q2")

    stopovers = console.find("chart-stopovers")
    expect(stopovers.locator("svg rect")).to_have_count(3)
    expect(stopovers.get_by_role("img")).to_have_accessible_name(
        re.compile("20 flights of 40 have 3 stopovers")
    )
    stopovers.get_by_text("Numbers of this chart").click()
    expect(stopovers.get_by_role("row", name="4 stopovers")).to_contain_text("10")
    tall, low = (float(bar.get_attribute("height") or 0) for bar in stopovers.locator("rect").all()[:2])
    assert tall == pytest.approx(2 * low, abs=0.5)

    console.find("query-q2").check()
    expect(console.find("chart-distances").locator("rect").first).to_be_visible()
    expect(console.find("chart-distances")).to_contain_text("From 4,000 to 5,100 miles, 30 flights")
    console.find("query-q3").check()
    expect(console.find("result-table").locator("tbody tr")).to_have_count(2)

    keyboard = console.page.keyboard
    keyboard.press("ArrowRight")
    expect(console.find("query-q4")).to_be_checked()
    assert console.page.evaluate(accessibility.HAS_VISIBLE_FOCUS)
    fares = console.find("chart-fares")
    expect(fares.locator("rect")).to_have_count(12)
    expect(fares.locator("text", has_text="R14 → BOS")).to_be_visible()
    expect(fares).to_contain_text("R14 → BOS is the dearest: 440.25 on average, 840.50 at most")
    expect(console.find("result-table").locator("tbody tr")).to_have_count(10)

    keyboard.press("Tab")
    expect(console.find("download-csv")).to_be_focused()
    with console.page.expect_download() as found:
        keyboard.press("Enter")
    assert found.value.suggested_filename == "q4.csv"
    lines = found.value.path().read_text().splitlines()
    assert lines == ["startingAirport,destinationAirport,avgFare,maxFare", *route_fares(15)]


def test_a_job_that_has_failed_says_why(console: Console, service: FlightsStandIn) -> None:
    reason = "airports.csv: missing column 'Latitude'"
    job = new_job(State.FAILED, reason=reason, results_partition=3)
    service.rows(job, "q1", many_stopovers(3))
    service.fails(job, reason, QUERIES)
    service.tell(answered(job, "partial", q1=3))
    console.open("flights")
    console.find(f"job-{job.job}").get_by_role("link").click()
    expect(console.find("job-state")).to_have_attribute("data-state", "failed")
    expect(console.find("job-reason")).to_have_text(reason)
    expect(console.find("result-table").locator("tbody tr")).to_have_count(3)
    expect(console.find("reading")).to_contain_text(reason)
    console.find("query-q3").check()
    expect(console.find("result-q3")).to_contain_text("There will be no answer")


def test_a_job_is_deleted(console: Console, service: FlightsStandIn) -> None:
    console.watch.announce(GONE)
    job = service.tell(new_job())
    console.open("flights")
    console.find(f"delete-{job.job}").click()
    console.find("dialog").get_by_role("button", name="Cancel").click()
    expect(console.find(f"job-{job.job}")).to_be_visible()
    console.find(f"delete-{job.job}").click()
    console.confirm()
    expect(console.find(f"job-{job.job}")).to_have_count(0)
    assert service.requests(job.job) == ["delete"]
    console.open("flights", job.job)
    expect(console.find("state-empty")).to_contain_text("There is no such job")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_jobs_are_accessible(
    open_console: OpenConsole, cluster: SupervisedCluster, service: FlightsStandIn, complete: Job, scheme: str
) -> None:
    waiting = service.tell(new_job())
    console = open_console(cluster.http, color_scheme=scheme)
    console.open("flights")
    expect(console.find(f"job-{complete.job}")).to_be_visible()
    accessibility.assert_accessible(console.page)
    console.open("flights", waiting.job)
    expect(console.find("resume")).to_be_visible()
    accessibility.assert_accessible(console.page)
    console.open("flights", complete.job)
    for query, chart in (("q1", "stopovers"), ("q4", "fares")):
        console.find(f"query-{query}").check()
        console.find(f"chart-{chart}").locator("summary").click()
        accessibility.assert_accessible(console.page)


def test_jobs_on_a_phone(
    open_console: OpenConsole, cluster: SupervisedCluster, service: FlightsStandIn, complete: Job
) -> None:
    waiting = service.tell(new_job())
    console = open_console(cluster.http, viewport=PHONE, has_touch=True, is_mobile=True)
    for path, shown in (((), "jobs"), ((waiting.job,), "resume"), ((complete.job,), "chart-stopovers")):
        console.open("flights", *path)
        expect(console.find(shown)).to_be_visible()
        assert accessibility.wider_than_screen(console.page) == [], path
        assert accessibility.small_targets(console.page) == [], path
    console.find("query-q4").check()
    expect(console.find("chart-fares")).to_be_visible()
    assert accessibility.wider_than_screen(console.page) == []
