from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.spark.errors import OptionError
from penstock.spark.offsets import Partition
from penstock.spark.options import read_options, write_options

GOOD = {"bootstrap": "127.0.0.1:9092", "subscribe": "a"}


def test_defaults() -> None:
    options = read_options(GOOD)
    assert options.connection.bootstrap == "127.0.0.1:9092"
    assert options.topics.names == ("a",)
    assert options.fail_on_data_loss
    assert options.include_headers
    assert options.group is None
    assert options.for_batch().starting == "earliest"
    assert options.for_batch().ending == "latest"
    assert options.for_stream().starting == "latest"


def test_names_in_any_case_and_kafkas_own() -> None:
    options = read_options(
        {
            "KAFKA.Bootstrap.Servers": "h:1",
            "SubscribePattern": r"traffic\.r\d+",
            "MAXOFFSETSPERTRIGGER": "7",
            "failondataloss": "False",
            "Group": "g",
            "kafka.sasl.username": "u",
        }
    )
    assert options.connection.bootstrap == "h:1"
    assert options.connection.settings == {"sasl.username": "u"}
    assert options.topics.pattern == r"traffic\.r\d+"
    assert options.max_offsets_per_trigger == 7
    assert options.group == "g"
    assert not options.fail_on_data_loss


def test_topics() -> None:
    assert read_options(GOOD | {"subscribe": " b, a,b"}).topics.names == ("a", "b")
    assigned = read_options({"bootstrap": "h:1", "assign": '{"b": [1, 0], "a": [3]}'}).topics.assigned
    assert assigned == (Partition("a", 3), Partition("b", 0), Partition("b", 1))


def test_offsets_by_partition() -> None:
    given = read_options(
        GOOD | {"startingOffsets": '{"a": {"0": 12, "1": -2}}', "endingOffsets": '{"a": {"0": 20, "1": -1}}'}
    )
    assert given.starting == {Partition("a", 0): 12, Partition("a", 1): -2}
    assert given.ending == {Partition("a", 0): 20, Partition("a", 1): -1}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"bootstrap": None}, "option 'bootstrap': is missing"),
        ({"bootstrap": " "}, "option 'bootstrap': is empty"),
        ({"kafka.bootstrap.servers": "other:1"}, "option 'bootstrap': differs"),
        ({"subscribe": None}, "option 'subscribe': is missing"),
        ({"subscribe": "a,,b"}, "option 'subscribe': has an empty name"),
        ({"assign": '{"a": [0]}'}, "option 'subscribe': cannot be combined with assign"),
        ({"subscribe": None, "subscribePattern": "("}, "option 'subscribePattern': '(' is not a regular"),
        ({"subscribe": None, "assign": "[0]"}, "option 'assign': is not of the form"),
        ({"subscribe": None, "assign": "{"}, "option 'assign': is not JSON"),
        ({"subscribe": None, "assign": '{"a": [-1]}'}, "option 'assign': -1 of topic 'a'"),
        ({"subscribe": None, "assign": '{"a": []}'}, "option 'assign': topic 'a' has no list"),
        ({"startingOffsets": "first"}, "option 'startingOffsets': 'first' is neither"),
        ({"startingOffsets": '{"a": {"x": 1}}'}, "option 'startingOffsets': 'x' of 'a'"),
        ({"startingOffsets": '{"a": {"0": true}}'}, "option 'startingOffsets': True of partition 0"),
        ({"startingOffsets": '{"a": {"0": -3}}'}, "option 'startingOffsets': -3 of a-0"),
        ({"startingOffsets": '{"a": 1}'}, "option 'startingOffsets': 'a' has no object"),
        ({"endingOffsets": "earliest"}, "option 'endingOffsets': 'earliest'"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "option 'endingOffsets': 'earliest'"),
        ({"startingTimestamp": "yesterday"}, "option 'startingTimestamp': 'yesterday' is not a whole"),
        ({"startingTimestamp": "1", "startingOffsets": "latest"}, "option 'startingTimestamp': cannot be"),
        ({"maxOffsetsPerTrigger": "0"}, "option 'maxOffsetsPerTrigger': '0' is not a whole number"),
        ({"maxInputPartitions": "0"}, "option 'maxInputPartitions': '0' is not a whole number"),
        ({"maxOffsetsPerTriger": "5"}, "option 'maxoffsetspertriger': is unknown"),
        ({"includeHeaders": "yes"}, "option 'includeHeaders': 'yes' is neither true nor false"),
        ({"topic": "a"}, "option 'topic': is unknown; reading takes bootstrap, subscribe"),
        ({"kafka.group.id": "g"}, "option 'kafka.group.id': cannot be set: set the option 'group'"),
        ({"kafka.auto.offset.reset": "earliest"}, "option 'kafka.auto.offset.reset': cannot be set"),
        ({"connector": "kafka"}, "option 'connector': 'kafka' needs a session made by"),
        ({"connector": "java"}, "option 'connector': 'java' is neither"),
        ({"timeoutMs": "-1"}, "option 'timeoutMs': '-1' is not"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], line: str) -> None:
    given = {name: value for name, value in (GOOD | changes).items() if value is not None}
    with pytest.raises(OptionError) as refused:
        read_options(given)
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("option", "value"), [("group", "g"), ("maxOffsetsPerTrigger", "1"), ("startingOffsets", "latest")]
)
def test_what_a_batch_refuses(option: str, value: str) -> None:
    with pytest.raises(OptionError, match=f"option '{option}': "):
        read_options(GOOD | {option: value}).for_batch()


def test_a_stream_has_no_end() -> None:
    with pytest.raises(OptionError, match="option 'endingOffsets': is for batches"):
        read_options(GOOD | {"endingOffsets": "latest"}).for_stream()


def test_writing() -> None:
    options = write_options({"bootstrap": "h:1", "topic": "a", "checkpointlocation": "/c"})
    assert options.topic == "a"
    assert write_options({"bootstrap": "h:1"}).topic is None
    with pytest.raises(OptionError, match="option 'subscribe': is unknown; writing takes bootstrap, topic"):
        write_options({"bootstrap": "h:1", "subscribe": "a"})
    with pytest.raises(OptionError, match=r"option 'kafka\.acks': cannot be set"):
        write_options({"bootstrap": "h:1", "kafka.acks": "1"})


def test_writing_exactly_once() -> None:
    given = {"bootstrap": "h:1", "topic": "a"}
    assert write_options(given).exactly_once
    assert not write_options(given | {"exactlyOnce": "false"}).for_stream().exactly_once
    for folder in ("/a/c", "file:/a/c", "file:///a/c", "FILE://localhost/a/c"):
        assert write_options(given | {"checkpointLocation": folder}).for_stream().staging == Path(
            "/a/c-staging"
        )
        assert write_options(given | {"staging": folder}).for_stream().staging == Path("/a/c")
    assert write_options(given | {"checkpointLocation": "out/c"}).staging == Path.cwd() / "out" / "c-staging"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({}, "option 'staging': is missing: a folder for rows"),
        ({"checkpointLocation": "hdfs://h/c"}, "option 'staging': is missing: a folder for rows"),
        ({"staging": "s3a://b/c"}, "option 'staging': 's3a://b/c' is not a folder of this machine"),
        ({"staging": "/s", "sinkId": "a b"}, "option 'sinkId': 'a b' is not made of"),
        ({"staging": "/s", "exactlyOnce": "no"}, "option 'exactlyOnce': 'no' is neither"),
        ({"staging": "/s", "exactlyOnce": "false"}, "option 'staging': cannot be combined"),
        ({"sinkId": "s", "exactlyOnce": "false"}, "option 'sinkId': cannot be combined"),
        ({"staging": "/s", "kafka.transactional.id": "s"}, "cannot be set: set the option 'sinkId'"),
    ],
)
def test_what_a_stream_cannot_be_written_with(options: dict[str, str], line: str) -> None:
    with pytest.raises(OptionError, match=re.escape(line)):
        write_options({"bootstrap": "h:1", "topic": "a"} | options).for_stream()


def test_a_batch_has_no_sink_to_be_found_again() -> None:
    with pytest.raises(OptionError, match="option 'sinkId': is for streams"):
        write_options({"bootstrap": "h:1", "topic": "a", "sinkId": "s"}).for_batch()


def test_json_without_partitions_is_not_the_default() -> None:
    assert read_options(GOOD | {"startingOffsets": "{}"}).for_batch().starting == {}
    assert read_options(GOOD | {"startingOffsets": "{}"}).for_stream().starting == {}
