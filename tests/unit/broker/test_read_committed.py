"""What a reader of committed data is told of aborted transactions."""

from __future__ import annotations

from datetime import timedelta

from penstock.metadata.assignments import NewTopic
from penstock.wire.batch import TRANSACTIONAL
from penstock.wire.control import Marker, encode_marker
from penstock.wire.records import Record, encode_batch
from tests.unit.broker.in_process import InProcess, with_broker

FETCH, READ_COMMITTED = 1, 1


def test_an_answer_names_the_aborted_transactions_of_what_it_carries() -> None:
    async def work(client: InProcess) -> None:
        await client.broker.controller.create_topics([NewTopic("t")])
        await client.broker.controller.publisher.settled()
        partition = client.broker.partitions.require("t", 0)
        for producer_id in range(20):
            await partition.append_own(
                encode_batch(
                    [Record(0, 1, None, b"v")],
                    attributes=TRANSACTIONAL,
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=0,
                )
            )
            await partition.append_own(encode_marker(Marker(False, 0), producer_id, 0, 1))
        asked = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 10, "partition_max_bytes": 1}
        answer = await client.ask(
            FETCH,
            12,
            {
                "max_wait": timedelta(0),
                "min_bytes": 1,
                "max_bytes": 1,
                "isolation_level": READ_COMMITTED,
                "topics": [{"topic": "t", "partitions": [asked]}],
            },
        )
        (found,) = answer.responses[0].partitions
        assert found.last_stable_offset == 40
        assert [each.producer_id for each in found.aborted_transactions] == [5]

    with_broker(work)
