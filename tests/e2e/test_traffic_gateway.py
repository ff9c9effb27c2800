"""Traffic over HTTP: a real broker, a real gateway, and a heat map written by the test, not by the job."""

from __future__ import annotations

import json
import re
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from penstock.traffic import DEFAULT_GRID, BBox, Cell, Grid, Position, TrafficClient
from penstock.traffic.heat import Totals
from penstock.traffic.topics import CONTRIBUTIONS, HEATMAP, MAP
from tests.support.broker import BrokerProcess
from tests.support.cluster import Cluster
from tests.support.gateway import GatewayProcess
from tests.support.topics import admin, create_topic, delete_records, delete_topic, fill, fill_all
from tests.support.traffic import (
    WINDOW_MS,
    follow_heat,
    heat_messages,
    now_ms,
    viewer_cookies,
    write_heat,
)
from tests.support.wait import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POSITIONS = "/v1/traffic/positions"
HEAT = "/v1/traffic/heatmap"
HERE: dict[str, Any] = {"lat": 49.21, "lon": -123.15, "speed": 12.5, "heading": 90}
THERE: dict[str, Any] = {"lat": 49.30, "lon": -123.02}


@pytest.fixture(scope="module")
def gateway(file_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    # On a busy machine it may take a while from one test to the next.
    options = ("--traffic-participation", "600")
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), file_broker.bootstrap, *options) as process:
        yield process
        assert "Traceback" not in process.log


@pytest.fixture
def heat(file_broker: BrokerProcess, gateway: GatewayProcess, car: str) -> Iterator[int]:
    """The number of the window of now, with an empty heat map of this test's own.

    And with a new gateway: the old one would take seconds to notice that the topic is another one.
    """
    create_topic(file_broker.bootstrap, HEATMAP)
    assert "Traceback" not in gateway.log
    gateway.restart(clean=False)
    yield now_ms() // WINDOW_MS
    delete_topic(file_broker.bootstrap, HEATMAP)


@pytest.fixture(scope="module")
def car(gateway: GatewayProcess) -> str:
    """One that has contributed."""
    contribute(gateway, "the test's own")
    return "the test's own"


def contribute(gateway: GatewayProcess, car: str) -> None:
    answer = gateway.post(POSITIONS, {"car": car, **HERE})
    assert answer.status_code == 200, answer.text


def snapshot(gateway: GatewayProcess, car: str, **parameters: str) -> dict[str, Any]:
    answer = gateway.get(HEAT, params={"car": car, **parameters})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def wait_sent(gateway: GatewayProcess, car: str, sent: int) -> dict[str, Any]:
    """The snapshot, once the gateway has read that many."""

    def known() -> dict[str, Any] | None:
        told = snapshot(gateway, car)
        return told if (told["totals"] or {}).get("sent") == sent else None

    found = wait_until(known, f"a heat map of {sent}")
    assert found is not None
    return found


def messages(gateway: GatewayProcess, topic: str) -> list[dict[str, Any]]:
    partitions = gateway.get(f"/v1/topics/{topic}").json()["partitions"]
    return [
        message
        for partition in range(len(partitions))
        for message in gateway.get(
            f"/v1/topics/{topic}/messages", params={"partition": partition, "limit": 1_000}
        ).json()["messages"]
    ]


def metric(gateway: GatewayProcess, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)$", gateway.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found is not None else 0.0


# Positions


def test_positions_go_to_the_topics_of_their_quadrants(gateway: GatewayProcess) -> None:
    before = metric(gateway, "penstock_gateway_traffic_positions_total")
    one = gateway.post(POSITIONS, {"car": "quadrants 1", **HERE})
    assert (one.status_code, one.json()) == (200, {"status": "success", "written": 1})
    many = [{"car": "quadrants 2", "ts": 1_000 + ts, **(HERE, THERE)[ts % 2]} for ts in range(1_000)]
    assert gateway.post(POSITIONS, many).json() == {"status": "success", "written": 1_000}
    assert gateway.post(POSITIONS, []).json() == {"status": "success", "written": 0}
    there = [each for each in messages(gateway, "traffic.r1.c1") if each["key"] == "quadrants 2"]
    assert [json.loads(each["value"])["ts"] for each in there] == [1_000 + ts for ts in range(1, 1_000, 2)]
    assert Position.from_json(there[0]["value"]) == Position("quadrants 2", 49.30, -123.02, 0.0, 0.0, 1_001)
    here = [each for each in messages(gateway, "traffic.r0.c0") if each["key"] == "quadrants 1"]
    assert abs(Position.from_json(here[0]["value"]).ts - now_ms()) < 60_000
    assert metric(gateway, "penstock_gateway_traffic_positions_total") == before + 1_001
    topic = gateway.get("/v1/topics/traffic.r0.c0").json()
    assert len(topic["partitions"]) == 4
    assert topic["config"]["message.timestamp.type"]["value"] == "LogAppendTime"


def test_a_quadrant_s_topic_that_was_deleted_is_made_anew(
    file_broker: BrokerProcess, gateway: GatewayProcess
) -> None:
    contribute(gateway, "before")
    delete_topic(file_broker.bootstrap, "traffic.r0.c0")
    contribute(gateway, "after")
    assert [each["key"] for each in messages(gateway, "traffic.r0.c0")] == ["after"]


@pytest.mark.parametrize(
    ("body", "index", "field"),
    [
        ({"car": "x", **HERE, "lat": "NaN"}, 0, "lat"),
        ({"car": "x", **HERE, "lat": 50.0}, 0, "lat"),
        ({"car": "x", **HERE, "lon": 12}, 0, "lon"),
        ({"car": "x", **HERE, "ts": 10**13}, 0, "ts"),
        ({"car": "x", **HERE, "speed": None}, 0, "speed"),
        ({"car": "", **HERE}, 0, "car"),
        ([{"car": "x", **HERE}, {"car": "x", **HERE}, {"car": "x", **HERE, "heading": 361}], 2, "heading"),
        ([{"car": "x", **HERE}, "elsewhere"], 1, "position"),
    ],
)
def test_one_wrong_position_and_none_is_written(
    gateway: GatewayProcess, body: Any, index: int, field: str
) -> None:
    contribute(gateway, "so that there is a topic")
    before = len(messages(gateway, "traffic.r0.c0"))
    answer = gateway.post(POSITIONS, body)
    assert answer.status_code == 400, answer.text
    told = answer.json()
    assert (told["status"], told["index"], told["field"]) == ("failure", index, field)
    assert f"position {index}" in told["message"]
    assert len(messages(gateway, "traffic.r0.c0")) == before
    assert gateway.get(HEAT, params={"car": "x"}).status_code == 403


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"car":"x","lat":NaN,"lon":-123.15}', 400),
        (b'{"car":"x","lat":1e999,"lon":-123.15}', 400),
        (b"car=x&lat=49.21&lon=-123.15", 400),
        (b"", 400),
        (b"[" * 100_000, 400),
        (json.dumps([{"car": "x", **HERE}] * 10_001).encode(), 413),
        (b" " * (8 * 1024 * 1024 + 1), 413),
    ],
)
def test_bodies_that_are_none(gateway: GatewayProcess, body: bytes, status: int) -> None:
    for kind in ("application/json", "application/x-www-form-urlencoded", "image/png"):
        answer = gateway.request("POST", POSITIONS, content=body, headers={"content-type": kind})
        assert answer.status_code == status, answer.text
        assert answer.json()["status"] == "failure"


def test_ancient_ones_are_written_for_the_job_to_count_as_late(gateway: GatewayProcess) -> None:
    answer = gateway.post(POSITIONS, {"car": "ancient", "ts": 0, **HERE})
    assert answer.json() == {"status": "success", "written": 1}
    # It has contributed now, whatever its clock says.
    snapshot(gateway, "ancient")


@pytest.mark.parametrize(
    "car", ["ä/ö?&=#%", "🚕" * 128, "a\u0000b", " ", "'\"\\<>", "line\nbreak", 7, -(2**53)]
)
def test_odd_names_of_cars(gateway: GatewayProcess, car: str | int) -> None:
    contribute(gateway, car)  # type: ignore[arg-type]  # a number is taken as its digits
    assert gateway.get(f"{HEAT}?car={quote(str(car))}").status_code == 200
    assert gateway.get(f"{HEAT}?car={quote(str(car))}x").status_code == 403


# Who may read


def test_who_does_not_contribute_does_not_read(gateway: GatewayProcess) -> None:
    for path in (HEAT, f"{HEAT}/stream"):
        for query in ("", "?car=", "?car=nobody", "?car=%ff", f"?car={'x' * 10_000}"):
            answer = gateway.get(path + query)
            assert answer.status_code == 403, (path, query)
            assert "contribute" in answer.json()["message"]
    assert gateway.get("/v1/traffic/streets").status_code == 200


def test_the_console_looks_on_without_a_car(gateway: GatewayProcess) -> None:
    cookies = viewer_cookies(gateway.url)
    assert gateway.get(HEAT, headers={"cookie": "penstock_viewer=guessed"}).status_code == 403
    header = "; ".join(f"{name}={value}" for name, value in cookies.items())
    assert gateway.get(HEAT, headers={"cookie": header}).status_code == 200


def test_a_contribution_is_known_to_every_gateway_and_after_a_restart(
    file_broker: BrokerProcess, gateway: GatewayProcess, tmp_path: Path
) -> None:
    contribute(gateway, "wanderer")
    with GatewayProcess(tmp_path, file_broker.bootstrap) as other:
        snapshot(other, "wanderer")  # it has just started, and has read of it
        other.restart(clean=False)
        snapshot(other, "wanderer")
        contribute(other, "wanderer 2")
        wait_until(
            lambda: gateway.get(HEAT, params={"car": "wanderer 2"}).status_code == 200, "the other's word"
        )
        assert other.get(HEAT, params={"car": "nobody"}).status_code == 403
        for _ in range(5):
            contribute(other, "wanderer 2")
    recorded = [each for each in messages(gateway, CONTRIBUTIONS) if each["key"] == "wanderer 2"]
    assert len(recorded) == 1


def test_a_stream_ends_with_its_car_s_participation(
    file_broker: BrokerProcess, heat: int, tmp_path: Path
) -> None:
    seconds = str(3 * PATIENCE)
    with GatewayProcess(tmp_path, file_broker.bootstrap, "--traffic-participation", seconds) as strict:
        contribute(strict, "leaves")
        with follow_heat(strict.url, "leaves") as events:
            contribute(strict, "leaves")
            write_heat(file_broker.bootstrap, heat, {(0, 0): 1}, 1)
            events.until(1)
            wait_until(
                lambda: strict.get(HEAT, params={"car": "leaves"}).status_code == 403, "the end of its time"
            )
            write_heat(file_broker.bootstrap, heat, {(0, 0): 2}, 2)
            events.until_end()
            assert events.sent == 1
            assert events.failure is not None
            assert "has not contributed" in events.failure


# The heat map


def test_the_newest_window_whole_and_in_part(
    file_broker: BrokerProcess, gateway: GatewayProcess, heat: int, car: str
) -> None:
    assert snapshot(gateway, car) == {"window": None, "cells": [], "newest": None, "totals": None}
    newest = now_ms()
    write_heat(file_broker.bootstrap, heat - 1, {(1, 1): 9}, 9)
    write_heat(file_broker.bootstrap, heat, {(3, 7): 12, (40, 40): 2, (5, 5): 0}, 23, newest)
    told = wait_sent(gateway, car, 23)
    assert told["window"] == {"start": heat * WINDOW_MS, "end": (heat + 1) * WINDOW_MS}
    assert told["newest"] == newest
    lat, lon = DEFAULT_GRID.cell_center(Cell(3, 7))
    expected = {"row": 3, "col": 7, "lat": lat, "lon": lon, "count": 12, "speed": 30.0}
    assert expected in told["cells"]
    assert {(each["row"], each["count"], each["speed"]) for each in told["cells"]} == {
        (3, 12, 30.0), (40, 2, 30.0), (5, 0, None),
    }  # fmt: skip
    box = f"{lon - 0.001},{lat - 0.001},{lon + 0.001},{lat + 0.001}"
    assert snapshot(gateway, car, bbox=box)["cells"] == [expected]
    assert snapshot(gateway, car, bbox="170,-10,-170,10")["cells"] == []
    assert len(snapshot(gateway, car, bbox="170,-90,-120,90")["cells"]) == 3  # across the date line
    assert 0 <= metric(gateway, "penstock_gateway_traffic_seconds_behind") < 60 * PATIENCE


@pytest.mark.parametrize(
    "box", ["1", "a,b,c,d", "nan,0,1,1", "0,1,1,0", "0,0,0,1", "-200,0,1,1", "1,2,3,4,5"]
)
def test_what_is_no_box(gateway: GatewayProcess, car: str, box: str) -> None:
    answer = gateway.get(HEAT, params={"car": car, "bbox": box})
    assert answer.status_code == 400
    assert answer.json()["message"].startswith("bbox: ")


def test_changes_as_they_come(
    file_broker: BrokerProcess, gateway: GatewayProcess, heat: int, car: str
) -> None:
    for back in (3, 2, 1):
        write_heat(file_broker.bootstrap, heat - back, {(back, 0): back}, 4 - back)
    wait_sent(gateway, car, 3)
    with follow_heat(gateway.url, car) as events:
        first = [events.take(), events.take()]
        assert [each["window"]["start"] for each in first] == [(heat - 2) * WINDOW_MS, (heat - 1) * WINDOW_MS]
        write_heat(file_broker.bootstrap, heat, {(0, 1): 1, (0, 2): 1}, 5)
        event = events.take()
        assert [(each["col"], each["count"]) for each in event["cells"]] == [(1, 1), (2, 1)]
        assert event["totals"]["sent"] == 5
        # Only what changed; and what is written again is no change.
        write_heat(file_broker.bootstrap, heat, {(0, 1): 1, (0, 2): 3}, 7)
        assert [(each["col"], each["count"]) for each in events.take()["cells"]] == [(2, 3)]
        # Cells without totals are half a batch.
        fill_all(file_broker.bootstrap, HEATMAP, heat_messages(heat, {(0, 3): 1}, 8, now_ms())[:-1])
        write_heat(file_broker.bootstrap, heat + 1, {(0, 4): 1}, 9)
        assert {events.take()["window"]["start"] for _ in range(2)} == {
            heat * WINDOW_MS, (heat + 1) * WINDOW_MS,
        }  # fmt: skip
        assert events.counts[heat * WINDOW_MS, 0, 3] == 1
        assert metric(gateway, 'penstock_gateway_streams{kind="traffic"}') == 1


def test_a_topic_that_is_deleted_and_made_anew(
    file_broker: BrokerProcess, gateway: GatewayProcess, heat: int, car: str
) -> None:
    write_heat(file_broker.bootstrap, heat, {(0, 0): 50}, 50)
    wait_sent(gateway, car, 50)
    with follow_heat(gateway.url, car) as events:
        events.until(50)
        delete_topic(file_broker.bootstrap, HEATMAP)
        events.until_end()  # what it was told is void: it comes back and is told anew
    assert snapshot(gateway, car)["cells"] == []
    create_topic(file_broker.bootstrap, HEATMAP)
    with follow_heat(gateway.url, car) as events:
        write_heat(file_broker.bootstrap, heat, {(0, 1): 1}, 1)
        events.until(1)
        assert events.counts == {(heat * WINDOW_MS, 0, 1): 1}


def test_records_that_are_deleted_while_they_are_shown(
    file_broker: BrokerProcess, gateway: GatewayProcess, heat: int, car: str
) -> None:
    write_heat(file_broker.bootstrap, heat, {(0, 0): 1}, 1)
    with follow_heat(gateway.url, car) as events:
        events.until(1)
        delete_records(file_broker.bootstrap, HEATMAP, 2)
        write_heat(file_broker.bootstrap, heat, {(0, 1): 1}, 2)
        events.until(2)
    assert len(wait_sent(gateway, car, 2)["cells"]) == 2


def test_garbage_on_all_topics(
    file_broker: BrokerProcess, gateway: GatewayProcess, heat: int, car: str
) -> None:
    gateway.get("/v1/traffic/streets")
    write_heat(file_broker.bootstrap, heat, {(0, 0): 5}, 5)
    garbage = [b"", b"\xff\xfe", b"null", b"[]", b"{}", b'{"row":-1}', b'{"ts":"x"}', b"x" * 100_000, None]
    for key in (b"totals", b"0.0.0", b"\xff"):
        fill(file_broker.bootstrap, HEATMAP, garbage, key=key)
        fill(file_broker.bootstrap, CONTRIBUTIONS, garbage, key=key)
    fill(file_broker.bootstrap, HEATMAP, garbage)
    ahead = heat_messages(10**12, {(0, 0): 1}, 1, 1)[:1]
    elsewhere = heat_messages(heat, {(10**6, 10**6): 1}, 1, 1)[:1]
    fill_all(file_broker.bootstrap, HEATMAP, [*ahead, *elsewhere])
    write_heat(file_broker.bootstrap, heat, {(0, 1): 6}, 11)
    told = wait_sent(gateway, car, 11)
    assert [(each["row"], each["col"], each["count"]) for each in told["cells"]] == [(0, 0, 5), (0, 1, 6)]


def test_the_map_of_the_city_and_that_it_changes(
    file_broker: BrokerProcess, gateway: GatewayProcess, heat: int, car: str
) -> None:
    """Last of all that use the map: it moves to another place, and back."""
    told = gateway.get("/v1/traffic/streets").json()
    assert told == {"type": "FeatureCollection", "features": [], "grid": DEFAULT_GRID.as_dict()}
    create_topic(file_broker.bootstrap, MAP, cleanup_policy="compact")
    island = Grid(BBox(177.0, -19.0, -178.0, -16.0), rows=1, cols=3, cells=4)
    line = {"type": "LineString", "coordinates": [[179.0, -18.0], [-179.0, -17.0]]}
    street = {"type": "Feature", "geometry": line, "properties": {"kind": "avenue", "name": "Main"}}
    streets = json.dumps({"type": "FeatureCollection", "features": [street]}).encode()
    write_heat(file_broker.bootstrap, heat, {(0, 7): 3}, 3)
    wait_sent(gateway, car, 3)
    with follow_heat(gateway.url, car) as events:
        events.until(3)
        fill(file_broker.bootstrap, MAP, [b"garbage"], key=b"grid")
        fill(file_broker.bootstrap, MAP, [b'{"features":1}', streets], key=b"streets")
        fill(file_broker.bootstrap, MAP, [island.to_json()], key=b"grid")
        moved = events.take()["cells"][0]
        assert (moved["lat"], moved["lon"]) == island.cell_center(Cell(0, 7))
    try:
        told = gateway.get("/v1/traffic/streets").json()
        assert told["features"] == [street]
        assert told["grid"] == island.as_dict()
        assert gateway.post(POSITIONS, {"car": "fiji", **HERE}).json()["field"] == "lat"
        across = {"car": "fiji", "lat": -17.5, "lon": -179.5}
        assert gateway.post(POSITIONS, across).json() == {"status": "success", "written": 1}
        assert [each["key"] for each in messages(gateway, "traffic.r0.c2")] == ["fiji"]
    finally:
        delete_topic(file_broker.bootstrap, MAP)
    wait_until(
        lambda: gateway.get("/v1/traffic/streets").json()["grid"] == DEFAULT_GRID.as_dict(), "the default"
    )


def test_a_slow_reader_is_shown_the_newest_state(
    file_broker: BrokerProcess, gateway: GatewayProcess, heat: int, car: str
) -> None:
    """More than all buffers hold is written while it does not read; it gets far fewer events."""
    batches = 300
    reasons = {f"a long reason {number}": 0 for number in range(5_000)}
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        client.connect(("127.0.0.1", gateway.port))
        client.settimeout(20 * PATIENCE)
        path = f"{HEAT}/stream?car={quote(car)}"
        client.sendall(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
        wait_until(lambda: metric(gateway, 'penstock_gateway_streams{kind="traffic"}') == 1, "the reader")
        many: list[dict[str, Any]] = []
        for count in range(1, batches + 1):
            totals = Totals(sent=count, counted=count, reasons=reasons)
            many += heat_messages(heat, {(0, 0): count}, count, now_ms())[:-1]
            many.append({"key": totals.key, "value": totals.to_json()})
        fill_all(file_broker.bootstrap, HEATMAP, many)
        wait_sent(gateway, car, batches)
        received = bytearray()
        end = f'"count":{batches},'.encode()
        while end not in received[-1_100_000:]:
            received += client.recv(1_000_000)
    shown = [int(count) for count in re.findall(rb'"count":(\d+)', received)]
    assert shown == sorted(shown)
    assert len(shown) < batches / 4


def test_a_gateway_that_nobody_asks_about_traffic_has_none_of_it(
    file_broker: BrokerProcess, heat: int, tmp_path: Path
) -> None:
    write_heat(file_broker.bootstrap, heat, {(0, 0): 1}, 1)
    with GatewayProcess(tmp_path, file_broker.bootstrap, "--traffic-participation", "0") as idle:
        assert idle.get("/topics").status_code == 200
        assert "traffic" not in idle.get("/metrics").text
        with follow_heat(idle.url) as events:  # without the rule no car is asked for
            events.until(1)
        assert "penstock_gateway_traffic_positions_total" in idle.get("/metrics").text
        assert idle.terminate() == 0


def test_brokers_that_are_away(tmp_path: Path) -> None:
    """A gateway that starts before its broker, and outlives it."""
    own = BrokerProcess(tmp_path, "--no-http")
    options = ("--limit", "kafka_seconds_max=1", "--traffic-participation", "0")
    with GatewayProcess(tmp_path, own.bootstrap, *options) as gateway:
        for answer in (gateway.get(HEAT), gateway.post(POSITIONS, {"car": "x", **HERE})):
            assert answer.status_code == 503, answer.text
        with own:
            wait_until(lambda: gateway.get(HEAT).status_code == 200, "a broker")
            window = now_ms() // WINDOW_MS
            create_topic(own.bootstrap, HEATMAP)
            write_heat(own.bootstrap, window, {(0, 0): 1}, 1)
            with follow_heat(gateway.url) as events:
                events.until(1)
                own.restart(clean=False)
                assert snapshot(gateway, "x")["totals"]["sent"] == 1
                write_heat(own.bootstrap, window, {(0, 0): 2}, 2)
                events.until(2)
                assert events.counts == {(window * WINDOW_MS, 0, 0): 2}
                assert events.failure is None
        assert gateway.terminate() == 0
        assert "Traceback" not in gateway.log


def test_nothing_is_created_by_reading(file_broker: BrokerProcess, gateway: GatewayProcess, car: str) -> None:
    snapshot(gateway, car)
    there = [topic["name"] for topic in gateway.get("/v1/topics").json()["topics"]]
    assert CONTRIBUTIONS in there
    assert HEATMAP not in there
    assert MAP not in there


def test_topics_have_as_many_replicas_as_the_cluster_gives_by_default(tmp_path: Path) -> None:
    """Those that a client library makes, and those of the gateway, of Traffic and of Flights."""
    two = ("[topics]", '"default.replication.factor" = 2')
    with (
        Cluster(tmp_path, brokers=3, settings=two) as cluster,
        GatewayProcess(tmp_path, cluster.bootstrap) as gateway,
        TrafficClient(cluster.bootstrap, 7) as client,
    ):
        client.create_topic("traffic.r0.c0")
        assert gateway.post(POSITIONS, {"car": 7, "ts": now_ms(), **HERE}).status_code == 200
        assert gateway.post("/v1/flights/jobs", {}).status_code == 200
        topics = admin(cluster.bootstrap).list_topics(timeout=10).topics
        made = {name: topic for name, topic in topics.items() if name.startswith(("traffic.", "flights."))}
        assert {"traffic.r0.c0", CONTRIBUTIONS, "flights.airports"} <= made.keys()
        for name, topic in made.items():
            assert {len(each.replicas) for each in topic.partitions.values()} == {2}, name
        (quadrant,) = {tuple(each.replicas) for each in made["traffic.r0.c0"].partitions.values()}
        assert len(quadrant) == 2, "one broker leads all partitions"
