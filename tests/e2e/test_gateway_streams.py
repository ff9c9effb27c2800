"""Topics followed over WebSocket and as Server-Sent Events, through a real gateway and a real broker."""

from __future__ import annotations

import base64
import json
import re
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.gateway import GatewayProcess
from tests.support.sockets import RECEIVE_S_MAX, open_socket, receive, receive_bytes
from tests.support.topics import add_partitions, create_topic, delete_records, delete_topic, fill
from tests.support.wait import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from websockets.sync.client import ClientConnection

    from tests.support.broker import BrokerProcess


SOME = "some-of-two"
"""A topic of two partitions, the first with the offsets 2 to 4."""
END_OF_BODY = b"0\r\n\r\n"


@pytest.fixture(scope="module")
def some(shared_broker: BrokerProcess) -> None:
    create_topic(shared_broker.bootstrap, SOME, 2)
    fill(shared_broker.bootstrap, SOME, numbered(0, 5), partition=0)
    delete_records(shared_broker.bootstrap, SOME, 2)


def numbered(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


class Events:
    """The events of a stream, one after the other."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.iter_lines()

    def next(self) -> dict[str, str]:
        """The next event that is not a comment."""
        fields: dict[str, str] = {}
        for line in self._lines:
            if not line and ("data" in fields):
                return fields
            name, colon, content = line.partition(": ")
            if colon and name:
                fields[name] = content
        raise AssertionError("the stream has ended")

    def data(self) -> dict[str, Any]:
        return dict(json.loads(self.next()["data"]))


@contextmanager
def open_events(gateway: GatewayProcess, path: str, **headers: str) -> Iterator[Events]:
    {name.replace("_", "-"): value for name, value in headers.items()}
    with (
        httpx.Client(timeout=RECEIVE_S_MAX * PATIENCE, trust_env=False) as client,
        client.stream(
            "GET",
            f"{gateway.url}/v1/topics/{path}",
            headers={k.replace("_", "-"): v for k, v in headers.items()},
        ) as response,
    ):
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Events(response)


def test_a_message_has_the_promised_shape(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic)
    fill(shared_broker.bootstrap, topic, [b"one"], key=b"k", timestamp=1_234)
    with open_socket(shared_gateway, f"{topic}/stream?offset=beginning") as reader:
        assert receive(reader) == {
            "topic": topic, "partition": 0, "offset": 0, "timestamp": 1_234, "key": "k", "value": "one",
        }  # fmt: skip


def test_what_is_not_text_and_what_is_nothing(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic)
    fill(shared_broker.bootstrap, topic, [b"\xff\x00", None, "ü".encode(), b""], key=b"\xfe")
    with open_socket(shared_gateway, f"{topic}/stream?offset=0&partition=0") as reader:
        first = receive(reader)
        assert (first["value"], base64.b64decode(first["value_base64"])) == (None, b"\xff\x00")
        assert (first["key"], base64.b64decode(first["key_base64"])) == (None, b"\xfe")
        second = receive(reader)
        assert second["value"] is None
        assert "value_base64" not in second
        assert [receive(reader)["value"] for _ in range(2)] == ["ü", ""]
    with open_socket(shared_gateway, f"{topic}/stream?offset=0&format=bytes") as reader:
        assert [receive_bytes(reader) for _ in range(4)] == [b"\xff\x00", b"", "ü".encode(), b""]


def test_beginning_end_and_an_offset(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic)
    fill(shared_broker.bootstrap, topic, numbered(0, 10))
    with (
        open_socket(shared_gateway, f"{topic}/stream?offset=beginning") as beginning,
        open_socket(shared_gateway, f"{topic}/stream?offset=7") as middle,
        open_socket(shared_gateway, f"{topic}/stream?offset=end") as end,
        open_socket(shared_gateway, f"{topic}/stream") as unsaid,
    ):
        fill(shared_broker.bootstrap, topic, numbered(10, 1))
        assert [receive(beginning)["value"] for _ in range(11)] == [str(each) for each in range(11)]
        assert [receive(middle)["offset"] for _ in range(4)] == [7, 8, 9, 10]
        assert receive(end)["offset"] == receive(unsaid)["offset"] == 10


def test_all_partitions_each_in_order(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic, 3)
    with open_socket(shared_gateway, f"{topic}/stream?offset=beginning") as reader:
        for partition in range(3):
            fill(shared_broker.bootstrap, topic, numbered(0, 200), partition=partition)
        found: dict[int, list[int]] = {0: [], 1: [], 2: []}
        for _ in range(600):
            message = receive(reader)
            found[message["partition"]].append(message["offset"])
        assert found == {partition: list(range(200)) for partition in range(3)}
        add_partitions(shared_broker.bootstrap, topic, 4)
        fill(shared_broker.bootstrap, topic, [b"new"], partition=3)
        assert receive(reader)["partition"] == 3
    with open_socket(shared_gateway, f"{topic}/stream?offset=150&partition=1") as reader:
        assert [receive(reader)["offset"] for _ in range(50)] == list(range(150, 200))


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("nowhere/stream", 404, "there is no topic"),
        ("some-of-two/stream?partition=9", 404, "no partition 9"),
        ("some-of-two/stream?partition=x", 400, "partition must be a number"),
        ("some-of-two/stream?offset=-1", 400, "offset must be a number"),
        ("some-of-two/stream?offset=99999999999999999999", 400, "offset must be a number"),
        ("some-of-two/stream?offset=1&partition=0", 400, "begins at 2 and ends before 5"),
        ("some-of-two/stream?offset=6&partition=0", 400, "begins at 2 and ends before 5"),
        ("some-of-two/stream?offset=3", 400, "of which partition"),
        ("some-of-two/stream?format=xml", 400, "format must be"),
        ("__penstock_ids/stream", 400, "reserved"),
        ("a%20b/stream", 400, "not a name"),
    ],
)
def test_what_is_wrong_is_said_before_the_stream_begins(
    some: None, shared_gateway: GatewayProcess, path: str, status: int, message: str
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        open_socket(shared_gateway, path)
    answers = [(refused.value.response.status_code, json.loads(refused.value.response.body or b""))]
    if "format" not in path:
        answer = shared_gateway.get(f"/v1/topics/{path.replace('stream', 'events')}")
        answers.append((answer.status_code, answer.json()))
    for code, body in answers:
        assert code == status
        assert body["status"] == "failure"
        assert message in body["message"]
        if "ends before" in message:
            assert (body["start"], body["end"]) == (2, 5)


def test_thousands_of_messages_arrive_in_order(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic)
    count = 20_000
    with open_socket(shared_gateway, f"{topic}/stream?offset=beginning&format=bytes") as reader:
        fill(shared_broker.bootstrap, topic, numbered(0, count))
        assert [receive_bytes(reader) for _ in range(count)] == numbered(0, count)


def test_the_largest_messages(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic)
    large = bytes(range(256)) * 3_900
    fill(shared_broker.bootstrap, topic, [large, b"small"])
    with open_socket(shared_gateway, f"{topic}/stream?offset=0&format=bytes", max_size=None) as reader:
        assert receive_bytes(reader) == large
        assert receive_bytes(reader) == b"small"


def test_a_reader_that_pauses_loses_nothing(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    """More than all buffers hold is written while it does not read; others go on meanwhile."""
    create_topic(shared_broker.bootstrap, topic)
    count, size = 60, 500_000
    with (
        open_socket(
            shared_gateway, f"{topic}/stream?offset=0&format=bytes", max_size=None, max_queue=1
        ) as slow,
        open_socket(shared_gateway, f"{topic}/stream?offset=0&format=bytes", max_size=None) as quick,
    ):
        fill(shared_broker.bootstrap, topic, (b"%08d" % number * (size // 8) for number in range(count)))
        for number in range(count):
            assert receive_bytes(quick)[:8] == b"%08d" % number
        for number in range(count):
            assert receive_bytes(slow)[:8] == b"%08d" % number


def receive_all(connection: ClientConnection) -> None:
    while True:
        receive_bytes(connection)


def small_socket(gateway: GatewayProcess) -> socket.socket:
    """Connected; the system takes little for it, where it would otherwise take all that the test sends."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    client.connect(("127.0.0.1", gateway.port))
    return client


def deaf_client(gateway: GatewayProcess, topic: str) -> socket.socket:
    """It asks for events and reads none."""
    client = small_socket(gateway)
    client.settimeout(RECEIVE_S_MAX * PATIENCE)
    client.sendall(f"GET /v1/topics/{topic}/events?offset=0 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
    return client


def stalled(gateway: GatewayProcess) -> int:
    """How many readers were let go."""
    found = re.search(
        r"^penstock_gateway_streams_stalled_total (\S+)$", gateway.get("/metrics").text, re.MULTILINE
    )
    assert found is not None
    return int(float(found[1]))


def holds(gateway: GatewayProcess, client: socket.socket) -> bool:
    """Whether the gateway still has the other end."""
    connections = psutil.Process(gateway.pid).net_connections("tcp")
    return any(each.raddr == client.getsockname() for each in connections)


def test_a_reader_that_never_reads_is_let_go(shared_broker: BrokerProcess, tmp_path: Any, topic: str) -> None:
    create_topic(shared_broker.bootstrap, topic)
    fill(shared_broker.bootstrap, topic, [b"x" * 900_000] * 20)
    options = ("--limit", "stream_stall_seconds_max=1", "--limit", "stream_close_seconds_max=6")
    with GatewayProcess(tmp_path, shared_broker.bootstrap, *options) as gateway:
        options_of_client = {"max_size": None, "max_queue": 1, "ping_interval": None}
        with open_socket(
            gateway, f"{topic}/stream?offset=0&format=bytes", sock=small_socket(gateway), **options_of_client
        ) as deaf:
            wait_until(lambda: stalled(gateway) == 1, "a reader that takes nothing is noticed")
            with pytest.raises(ConnectionClosed) as closed:
                receive_all(deaf)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1013
            assert "nothing was taken" in closed.value.rcvd.reason
        with deaf_client(gateway, topic) as deaf_events:
            wait_until(lambda: stalled(gateway) == 2, "a reader of events that takes nothing is noticed")
            received = b""
            while not received.endswith(END_OF_BODY):
                received += deaf_events.recv(1_000_000)
            assert len(received) < 20 * 900_000
            assert b"event: error" in received[-1_000:]
            assert b"nothing was taken" in received[-1_000:]
        with deaf_client(gateway, topic) as never:
            wait_until(lambda: holds(gateway, never), "it is connected")
            wait_until(lambda: not holds(gateway, never), "a client that never reads loses its connection")
        # It is as quick as ever for everybody else.
        with open_socket(gateway, f"{topic}/stream?offset=19&format=bytes", max_size=None) as reader:
            assert len(receive_bytes(reader)) == 900_000


def test_a_topic_that_goes_away_closes_its_streams(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic)
    fill(shared_broker.bootstrap, topic, [b"1"])
    with (
        open_socket(shared_gateway, f"{topic}/stream?offset=0") as reader,
        open_events(shared_gateway, f"{topic}/events?offset=0") as events,
    ):
        receive(reader)
        assert events.data()["value"] == "1"
        delete_topic(shared_broker.bootstrap, topic)
        with pytest.raises(ConnectionClosed) as closed:
            receive(reader)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4404
        last = events.next()
        assert last["event"] == "error"
        assert "no topic" in json.loads(last["data"])["message"]


def test_events_and_where_a_browser_goes_on(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic)
    fill(shared_broker.bootstrap, topic, numbered(0, 10))
    with open_events(shared_gateway, f"{topic}/events?offset=beginning") as events:
        first = events.next()
        assert first["id"] == "0:0"
        message = json.loads(first["data"])
        assert (message["topic"], message["offset"], message["value"]) == (topic, 0, "0")
        for _ in range(4):
            last = events.next()
        assert last["id"] == "0:4"
    with open_events(shared_gateway, f"{topic}/events?offset=beginning", last_event_id=last["id"]) as events:
        assert [events.data()["offset"] for _ in range(5)] == [5, 6, 7, 8, 9]
        fill(shared_broker.bootstrap, topic, numbered(10, 1))
        assert events.data()["value"] == "10"


def test_events_of_several_partitions_go_on_in_all_of_them(
    shared_broker: BrokerProcess, shared_gateway: GatewayProcess, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic, 2)
    fill(shared_broker.bootstrap, topic, numbered(0, 3), partition=0)
    fill(shared_broker.bootstrap, topic, numbered(0, 3), partition=1)
    seen: list[tuple[int, int]] = []
    last = ""
    while len(seen) < 6:  # a browser that loses its connection after each message
        headers = {"last_event_id": last} if last else {}
        with open_events(shared_gateway, f"{topic}/events?offset=beginning", **headers) as events:
            event = events.next()
            message = json.loads(event["data"])
            seen.append((message["partition"], message["offset"]))
            last = event["id"]
    assert sorted(seen) == [(partition, offset) for partition in range(2) for offset in range(3)]
    for wrong in ("x", "0", "0:x", "0:99", "7", "0:1,"):
        answer = shared_gateway.get(f"/v1/topics/{topic}/events", headers={"last-event-id": wrong})
        assert answer.status_code == 400, wrong


def test_heartbeats_and_pings(shared_broker: BrokerProcess, tmp_path: Any, topic: str) -> None:
    create_topic(shared_broker.bootstrap, topic)
    with (
        GatewayProcess(
            tmp_path, shared_broker.bootstrap, "--limit", "stream_heartbeat_seconds=0.1"
        ) as gateway,
        httpx.stream("GET", f"{gateway.url}/v1/topics/{topic}/events", timeout=RECEIVE_S_MAX) as response,
    ):
        lines = response.iter_lines()
        heartbeats = 0
        while heartbeats < 3:
            heartbeats += next(lines).startswith(": heartbeat")
        with open_socket(gateway, f"{topic}/stream") as reader:
            assert reader.ping().wait(RECEIVE_S_MAX)


def test_a_gateway_that_is_killed_and_a_reader_that_goes_on(
    shared_broker: BrokerProcess, tmp_path: Any, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic)
    offset = 0
    with GatewayProcess(tmp_path, shared_broker.bootstrap) as gateway:
        for round_number in range(2):
            with open_socket(gateway, f"{topic}/stream?offset={offset}") as reader:
                fill(shared_broker.bootstrap, topic, numbered(round_number * 50, 50))
                for _ in range(40):  # the last ten are on their way when the gateway dies
                    message = receive(reader)
                    assert message["value"] == str(message["offset"]) == str(offset)
                    offset += 1
                gateway.kill()
            gateway.start()
        with open_socket(gateway, f"{topic}/stream?offset={offset}") as reader:
            assert [receive(reader)["offset"] for _ in range(100 - offset)] == list(range(offset, 100))


def test_a_gateway_that_stops_ends_its_streams(
    shared_broker: BrokerProcess, tmp_path: Any, topic: str
) -> None:
    create_topic(shared_broker.bootstrap, topic)
    fill(shared_broker.bootstrap, topic, [b"1"])
    with (
        GatewayProcess(tmp_path, shared_broker.bootstrap, "--limit", "stop_seconds_max=100") as gateway,
        open_socket(gateway, f"{topic}/stream?offset=0") as reader,
        open_socket(gateway, f"{topic}/produce") as writer,
        open_events(gateway, f"{topic}/events?offset=0") as events,
    ):
        receive(reader)
        events.next()
        assert gateway.terminate() == 0
        for connection in (reader, writer):
            with pytest.raises(ConnectionClosed) as closed:
                receive(connection)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1012
        with pytest.raises(AssertionError, match="the stream has ended"):
            events.next()
        assert "Traceback" not in gateway.log
