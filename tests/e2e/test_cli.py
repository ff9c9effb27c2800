"""The commands against a running broker, as a user or a script calls them."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.commands import environment, penstock
from tests.support.ports import free_port
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.broker import BrokerProcess


def start(broker: BrokerProcess, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "penstock", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(broker),
        **options,
    )


# Topics


def test_a_topic_from_creation_to_deletion(shared_broker: BrokerProcess, topic: str) -> None:
    def run(*arguments: str) -> list[str]:
        return penstock("topics", *arguments, broker=shared_broker).lines

    created = run("create", topic, "--partitions", "3", "--config", "retention.ms=1000")
    assert created == [f"created {topic} with 3 partitions"]
    described = json.loads(run("describe", topic, "--json")[0])
    assert described["config"] == {"retention.ms": "1000"}
    assert described["partitions"] == [
        {
            "partition": index,
            "leader": 1,
            "leader_epoch": 0,
            "replicas": [1],
            "isr": [1],
            "log_start_offset": 0,
            "high_watermark": 0,
        }
        for index in range(3)
    ]
    listed = json.loads(run("list", "--json")[0])["topics"]
    assert {"name": topic, "partitions": 3, "replicas": 1} in listed
    assert not any(found["name"].startswith("__") for found in listed)
    assert run("config", topic, "--set", "retention.ms=2000", "--set", "segment.ms=3000") == [
        "retention.ms=2000",
        "segment.ms=3000",
    ]
    assert run("config", topic, "--delete", "retention.ms") == ["retention.ms=604800000"]
    assert run("delete", topic) == [f"deleted {topic}"]
    assert penstock("topics", "describe", topic, broker=shared_broker).complaint == (
        f"topic {topic!r} does not exist"
    )


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["topics", "create", "not/a/name"], "Topic name is invalid"),
        (["topics", "create", "x", "--replicas", "3"], "INVALID_REPLICATION_FACTOR"),
        (["topics", "create", "x", "--config", "nonsense=1"], "INVALID_CONFIG"),
        (["topics", "create", "x", "--replicas", "3000"], "INVALID_REPLICATION_FACTOR"),
        (["topics", "create", "x", "--partitions", "100000"], "POLICY_VIOLATION"),
        (["topics", "list", "--bootstrap", "x\udcff:9092"], "no broker reachable"),
        (["topics", "delete", "no-such-topic"], "does not exist"),
        (["topics", "config", "no-such-topic"], "does not exist"),
        (["consume", "no-such-topic"], "does not exist"),
        (["groups", "describe", "no-such-group"], "does not exist"),
        (["groups", "reset", "g", "--topic", "no-such-topic", "--to", "end"], "does not exist"),
    ],
)
def test_what_can_not_be_done_is_one_line(
    shared_broker: BrokerProcess, arguments: list[str], word: str
) -> None:
    assert word in penstock(*arguments, broker=shared_broker).complaint


def test_only_settings_that_exist_are_deleted(shared_broker: BrokerProcess, topic: str) -> None:
    penstock("topics", "create", topic, broker=shared_broker)
    refused = penstock("topics", "config", topic, "--delete", "nonsense", broker=shared_broker)
    assert refused.complaint == "topics have no setting 'nonsense'"


def test_deleting_a_topic_named_twice(shared_broker: BrokerProcess, topic: str) -> None:
    penstock("topics", "create", topic, broker=shared_broker)
    assert penstock("topics", "delete", topic, topic, broker=shared_broker).lines == [f"deleted {topic}"]


def test_creating_a_topic_twice(shared_broker: BrokerProcess, topic: str) -> None:
    assert penstock("topics", "create", topic, broker=shared_broker).code == 0
    assert "TOPIC_ALREADY_EXISTS" in penstock("topics", "create", topic, broker=shared_broker).complaint


# Messages


def test_lines_in_lines_out(shared_broker: BrokerProcess, topic: str) -> None:
    lines = b"first\n\n  spaces kept \r\n\xffnot text\nlast without newline"
    assert penstock("produce", topic, broker=shared_broker, stdin=lines).lines == []
    read = subprocess.run(
        [sys.executable, "-m", "penstock", "consume", topic, "-n", "5"],
        env=environment(shared_broker),
        capture_output=True,
        timeout=60,
    )
    assert read.stdout == lines + b"\n"


def test_a_file_with_a_key(shared_broker: BrokerProcess, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("".join(f"{number}\n" for number in range(20_000)))
    penstock("topics", "create", topic, "--partitions", "4", broker=shared_broker)
    assert penstock("produce", topic, "--key", "k", "--file", str(file), broker=shared_broker).code == 0
    lines = penstock("consume", topic, "-n", "20000", "--json", broker=shared_broker).lines
    messages = [json.loads(line) for line in lines]
    assert [message["value"] for message in messages] == [str(number) for number in range(20_000)]
    assert {message["key"] for message in messages} == {"k"}
    assert len({message["partition"] for message in messages}) == 1
    assert [message["offset"] for message in messages] == list(range(20_000))


def test_no_lines_are_no_messages(shared_broker: BrokerProcess, topic: str) -> None:
    penstock("topics", "create", topic, broker=shared_broker)
    assert penstock("produce", topic, broker=shared_broker).lines == []
    described = penstock("topics", "describe", topic, "--json", broker=shared_broker)
    assert json.loads(described.out)["partitions"][0]["high_watermark"] == 0


def test_a_message_over_the_limit_is_refused(shared_broker: BrokerProcess, topic: str) -> None:
    penstock("topics", "create", topic, "--config", "max.message.bytes=1000", broker=shared_broker)
    refused = penstock("produce", topic, broker=shared_broker, stdin="x" * 5_000)
    assert "1 of 1 message not delivered" in refused.complaint
    assert "MSG_SIZE_TOO_LARGE" in refused.complaint


def test_lines_around_one_over_the_limit_arrive(shared_broker: BrokerProcess, topic: str) -> None:
    lines = ["a", "x" * 3_000_000, "b"]
    refused = penstock("produce", topic, broker=shared_broker, stdin="\n".join(lines))
    assert refused.complaint.startswith("1 of 3 messages not delivered: ")
    assert penstock("consume", topic, "-n", "2", broker=shared_broker).lines == ["a", "b"]


def test_a_key_that_is_not_text(shared_broker: BrokerProcess, topic: str) -> None:
    assert penstock("produce", topic, "--key", "k\udcff", broker=shared_broker, stdin="a\n").lines == []
    message = json.loads(penstock("consume", topic, "-n", "1", "--json", broker=shared_broker).lines[0])
    assert message["key"] == "k\ufffd"


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("produce t <&-", "standard input is closed"),
        ("consume t >&-", "standard output is closed"),
        ("topics list --all >/dev/full", "No space left on device"),
    ],
)
def test_closed_and_full_streams(shared_broker: BrokerProcess, command: str, complaint: str) -> None:
    penstock("topics", "create", "t", broker=shared_broker)  # or there would be nothing to list
    ended = subprocess.run(
        ["bash", "-c", f"exec {sys.executable} -m penstock {command}"],
        env=environment(shared_broker),
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (1, f"penstock: {complaint}\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_producer_says_nothing(
    shared_broker: BrokerProcess, topic: str, number: signal.Signals
) -> None:
    penstock("topics", "create", topic, broker=shared_broker)
    with start(shared_broker, "produce", topic, stdin=subprocess.PIPE) as writer:
        assert writer.stdin is not None
        assert writer.stderr is not None
        writer.stdin.write(b"a\n")
        writer.stdin.flush()
        # Once its first line is there, it is past its start.
        assert penstock("consume", topic, "-n", "1", broker=shared_broker).lines == ["a"]
        writer.send_signal(number)
        assert writer.wait(20) == 1
        assert writer.stderr.read() == b""


@pytest.mark.parametrize(("start_at", "expected"), [("beginning", "0"), ("3", "3"), ("9", "9")])
def test_where_to_start(shared_broker: BrokerProcess, topic: str, start_at: str, expected: str) -> None:
    penstock("produce", topic, broker=shared_broker, stdin="".join(f"{n}\n" for n in range(10)))
    assert penstock("consume", topic, "--from", start_at, "-n", "1", broker=shared_broker).lines == [expected]


def test_an_offset_that_is_not_there(shared_broker: BrokerProcess, topic: str) -> None:
    penstock("produce", topic, broker=shared_broker, stdin="a\n")
    refused = penstock("consume", topic, "--from", "5", "-n", "1", broker=shared_broker)
    assert refused.complaint == f"no partition of {topic} has offset 5"


def test_following_from_the_end_until_interrupted(shared_broker: BrokerProcess, topic: str) -> None:
    penstock("produce", topic, broker=shared_broker, stdin="old\n")
    reader = start(shared_broker, "consume", topic, "--from", "end")
    assert reader.stdout is not None
    try:
        seen: list[bytes] = []
        thread = threading.Thread(target=lambda: seen.extend(iter(reader.stdout.readline, b"")))
        thread.start()

        def new_line_arrives() -> bool:
            # Until the reader has found the end, what is written is before it.
            penstock("produce", topic, broker=shared_broker, stdin="new\n")
            return bool(seen)

        wait_until(new_line_arrives, "a line at the reader", timeout_s=30)
        reader.send_signal(signal.SIGINT)
        assert reader.wait(20) == 0
        thread.join()
        assert set(seen) == {b"new\n"}
        assert reader.stderr is not None
        assert reader.stderr.read() == b""
    finally:
        reader.kill()
        reader.wait()
        reader.stdout.close()
        reader.stderr.close()


def test_an_interrupt_before_the_last_message_is_a_failure(shared_broker: BrokerProcess, topic: str) -> None:
    penstock("produce", topic, broker=shared_broker, stdin="a\n")
    with start(shared_broker, "consume", topic, "-n", "2") as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        assert reader.stdout.readline() == b"a\n"
        reader.send_signal(signal.SIGTERM)
        assert reader.wait(20) == 1
        assert reader.stderr.read() == b"penstock: stopped after 1 of 2 messages\n"


def test_a_reader_that_goes_away_ends_the_command_quietly(shared_broker: BrokerProcess, topic: str) -> None:
    penstock("produce", topic, broker=shared_broker, stdin="x" * 100 + "\n" + "y\n" * 50_000)
    with start(shared_broker, "consume", topic) as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        assert reader.stdout.readline() == b"x" * 100 + b"\n"
        reader.stdout.close()
        assert reader.wait(20) == 0
        assert reader.stderr.read() == b""


# Groups


def test_a_group_goes_on_where_it_stopped(shared_broker: BrokerProcess, topic: str) -> None:
    def consume(*arguments: str) -> list[str]:
        return penstock("consume", topic, "--group", topic, *arguments, broker=shared_broker).lines

    def describe() -> dict[str, Any]:
        found = penstock("groups", "describe", topic, "--json", broker=shared_broker)
        return dict(json.loads(found.lines[0]))

    penstock("produce", topic, broker=shared_broker, stdin="a\nb\nc\nd\n")
    assert consume("-n", "1") == ["a"]
    assert consume("-n", "2") == ["b", "c"]
    described = describe()
    assert (described["state"], described["lag"], described["members"]) == ("empty", 1, [])
    assert described["partitions"] == [
        {"topic": topic, "partition": 0, "committed": 3, "end": 4, "lag": 1, "member": None}
    ]
    assert consume("--from", "beginning", "-n", "2") == ["a", "b"]
    assert describe()["lag"] == 2
    listed = json.loads(penstock("groups", "list", "--json", broker=shared_broker).lines[0])
    assert {"group": topic, "state": "empty"} in listed["groups"]


@pytest.mark.parametrize(
    ("to", "offset"),
    [
        ("beginning", 0),
        ("end", 3),
        ("1", 1),
        ("99", 3),
        ("2020-01-01T00:00:00Z", 0),
        ("2999-01-01", 3),
        ("0001-01-01T00:00:00Z", 0),
    ],
)
def test_resetting_a_group(shared_broker: BrokerProcess, topic: str, to: str, offset: int) -> None:
    penstock("produce", topic, broker=shared_broker, stdin="a\nb\nc\n")
    arguments = ["groups", "reset", topic, "--topic", topic, "--to", to, "--json"]
    done = penstock(*arguments, broker=shared_broker)
    expected = [{"topic": topic, "partition": 0, "offset": offset}]
    assert json.loads(done.lines[0]) == {"group": topic, "partitions": expected}
    described = penstock("groups", "describe", topic, "--json", broker=shared_broker)
    assert json.loads(described.lines[0])["partitions"][0]["committed"] == offset


def test_a_group_with_members_is_shown_and_not_reset(shared_broker: BrokerProcess, topic: str) -> None:
    penstock("produce", topic, broker=shared_broker, stdin="a\n")
    with start(shared_broker, "consume", topic, "--group", topic) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"a\n"
        found = penstock("groups", "describe", topic, "--json", broker=shared_broker)
        described = json.loads(found.lines[0])
        assert described["state"] == "stable"
        assert [member["client"] for member in described["members"]] == ["penstock-cli"]
        assert described["partitions"][0]["member"] == "penstock-cli"
        reset = penstock("groups", "reset", topic, "--topic", topic, "--to", "end", broker=shared_broker)
        assert reset.complaint == f"group {topic!r} has running members: stop them first"
        reader.send_signal(signal.SIGINT)
        assert reader.wait(20) == 0


# The cluster


def test_status_has_the_agreed_shape(broker: BrokerProcess) -> None:
    penstock("topics", "create", "t", broker=broker)
    penstock("produce", "t", broker=broker, stdin="a\nb\n")
    status = json.loads(penstock("cluster", "status", "--json", broker=broker).lines[0])
    assert status.pop("cluster_id")
    assert status == {
        "controller": 1,
        "brokers": [
            {
                "id": 1,
                "host": "127.0.0.1",
                "port": broker.port,
                "pid": broker.pid,
                "state": "running",
                "roles": ["broker", "controller"],
                "rack": None,
            }
        ],
        "topics": [
            {
                "name": "t",
                "partitions": [
                    {
                        "partition": 0,
                        "leader": 1,
                        "leader_epoch": 0,
                        "replicas": [1],
                        "isr": [1],
                        "high_watermark": 2,
                    }
                ],
            }
        ],
    }


def test_status_without_the_endpoint(shared_broker: BrokerProcess) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    status = penstock("cluster", "status", "--json", "--http", nowhere, broker=shared_broker)
    shown = json.loads(status.lines[0])["brokers"][0]
    assert (shown["pid"], shown["state"], shown["roles"]) == (None, "unknown", None)


def test_status_ignores_the_endpoint_of_another_cluster(
    shared_broker: BrokerProcess, broker: BrokerProcess
) -> None:
    status = penstock("cluster", "status", "--json", "--http", broker.http, broker=shared_broker)
    assert json.loads(status.lines[0])["brokers"][0]["pid"] is None


# Nobody there


EVERY_CLIENT_COMMAND = [
    ["topics", "list"],
    ["topics", "create", "t"],
    ["topics", "describe", "t"],
    ["topics", "delete", "t"],
    ["topics", "config", "t"],
    ["produce", "t"],
    ["consume", "t"],
    ["groups", "list"],
    ["groups", "describe", "g"],
    ["groups", "reset", "g", "--topic", "t", "--to", "end"],
    ["cluster", "status"],
    ["bench"],
]


@pytest.mark.parametrize("arguments", EVERY_CLIENT_COMMAND, ids=" ".join)
def test_no_broker_is_one_line(arguments: list[str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    refused = penstock(*arguments, "--bootstrap", address)
    assert refused.complaint == f"no broker reachable at {address}: Connection refused"


@pytest.fixture
def silent_listener() -> Iterator[str]:
    """Something that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_something_else_that_listens_is_one_line(silent_listener: str) -> None:
    def refused(command: list[str]) -> str:
        return penstock(*command, "--bootstrap", silent_listener).complaint

    commands = [["topics", "list"], ["produce", "t"], ["consume", "t"]]
    with ThreadPoolExecutor() as at_once:  # each gives a broker seconds to answer
        told = list(at_once.map(refused, commands))
    assert told == [f"what listens at {silent_listener} does not answer as a broker"] * len(commands)


# Bench


def test_the_benchmark_in_json(shared_broker: BrokerProcess) -> None:
    measured = json.loads(penstock("bench", "--megabytes", "1", "--json", broker=shared_broker).lines[0])
    assert [rate["message_bytes"] for rate in measured["rates"]] == [100, 1_000]
    assert [rate["messages"] for rate in measured["rates"]] == [10_000, 1_000]
    for rate in measured["rates"]:
        assert rate["produce"]["messages_per_second"] > 0
        assert rate["consume"]["messages_per_second"] > 0
    assert 0 < measured["latency_ms"]["p50"] <= measured["latency_ms"]["p99"]


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name
)
def test_an_ended_benchmark_takes_its_broker_with_it(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "penstock", "bench"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment() | {"TMPDIR": str(tmp_path)},
    ) as process:

        def broker_pid() -> int:
            return next((int(path.read_text() or 0) for path in tmp_path.glob("*/data/.lock")), 0)

        pid = wait_until(broker_pid, "a broker of its own")
        process.send_signal(number)
        code = process.wait(20)
        assert process.stderr is not None
        assert process.stderr.read() == b""
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the broker")
    if number is not signal.SIGKILL:
        assert code == 1
        assert list(tmp_path.iterdir()) == []
