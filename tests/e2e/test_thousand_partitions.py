"""A thousand partitions: open files and memory stay bounded, in work and after a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil

from tests.support.raw import PRODUCE, RawClient, make_batch, produce_body

if TYPE_CHECKING:
    from tests.support.broker import BrokerProcess

PARTITIONS = 1000
OPEN_FILES_MAX = 400
IDLE_MEMORY_MAX = 90 * 1024 * 1024


def test_a_thousand_partitions(broker: BrokerProcess) -> None:
    with RawClient(broker.bootstrap, timeout_s=60) as client:
        client.create_topic("wide", partitions=PARTITIONS)
        for _ in range(2):
            answer = client.request(
                PRODUCE, 9, produce_body("wide", {index: make_batch([b"v"]) for index in range(PARTITIONS)})
            )
            codes = {each.error_code.name for each in answer.responses[0].partition_responses}
            assert codes == {"none"}
    process = psutil.Process(broker.pid)
    assert process.num_fds() < OPEN_FILES_MAX
    for clean in (True, False):
        broker.restart(clean=clean)
        process = psutil.Process(broker.pid)
        assert process.num_fds() < OPEN_FILES_MAX
        assert process.memory_info().rss < IDLE_MEMORY_MAX
        with RawClient(broker.bootstrap, timeout_s=60) as client:
            for index in (0, PARTITIONS // 2, PARTITIONS - 1):
                assert client.end_offset("wide", partition=index) == 2
