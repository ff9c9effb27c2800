from __future__ import annotations

import dataclasses
import json
from typing import get_args
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.metadata import records
from penstock.metadata.records import MetadataRecordError, TopicRecord, decode, encode

INTEGERS = st.integers(-(2**63), 2**63 - 1)
IDS = st.lists(st.integers(0, 2**31 - 1), max_size=5).map(tuple)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)

FIELDS = {
    "int": INTEGERS,
    "bool": st.booleans(),
    "str": TEXT,
    "UUID": st.uuids(),
    "Ids": IDS,
    "Texts": st.lists(TEXT, max_size=5).map(tuple),
}


def _every(record_type: type) -> st.SearchStrategy[records.MetadataRecord]:
    values = {}
    for field in dataclasses.fields(record_type):
        name, _, optional = str(field.type).partition(" | ")
        values[field.name] = FIELDS[name] | st.none() if optional else FIELDS[name]
    return st.builds(record_type, **values)


EVERY_RECORD = st.one_of([_every(record_type) for record_type in get_args(records.MetadataRecord)])


@given(EVERY_RECORD)
def test_every_record_comes_back_as_it_was(record: records.MetadataRecord) -> None:
    assert decode(encode(record)) == record


def test_a_person_can_read_a_record() -> None:
    record = TopicRecord("orders", UUID(int=5))
    assert encode(record) == (
        b'{"type":"Topic","version":0,"name":"orders","topic_id":"00000000-0000-0000-0000-000000000005"}'
    )


def _topic(**changes: object) -> bytes:
    content = {"type": "Topic", "version": 0, "name": "a", "topic_id": str(UUID(int=5))} | changes
    return json.dumps({key: value for key, value in content.items() if value is not None}).encode()


def _partition(**changes: object) -> bytes:
    record = records.PartitionRecord(UUID(int=5), 0, (1,), (1,), 1, 0, 0)
    return json.dumps(json.loads(encode(record)) | changes).encode()


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (_topic(type="Toothbrush"), "unknown metadata record type 'Toothbrush'"),
        (_topic(type=7), "unknown metadata record type 7"),
        (_topic(version=1), "Topic has version 1; this Penstock knows up to 0"),
        (_topic(version=True), "Topic has version True"),
        (_topic(name=None), "Topic lacks name"),
        (_topic(name=5), "name is not of type str"),
        (_topic(topic_id="x"), "topic_id badly formed"),
        (_topic(colour="red"), "has no field 'colour'"),
        (_partition(isr=[1, "2"]), "isr is not a list of integers"),
        (_partition(leader=True), "leader is not of type int"),
        (_partition(unclean=1), "unclean is not of type bool"),
        (b'{"type":"Voters","version":0,"node_ids":[1],"storage_ids":[1]}', "is not a list of strings"),
        (b"[]", "no JSON object"),
        (b"\xff\x00", "not a metadata record"),
        (b"[" * 100_000, "not a metadata record"),
        (None, "not a metadata record"),
    ],
)
def test_what_is_no_record_is_refused_with_a_clear_line(value: bytes | None, line: str) -> None:
    with pytest.raises(MetadataRecordError, match=line.replace("[", r"\[")):
        decode(value)


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_else(value: bytes) -> None:
    with pytest.raises(MetadataRecordError):
        decode(value)
