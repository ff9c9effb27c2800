"""Every API in every version that ApiVersions lists gets an answer that can be read."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.index import api_key_map

from penstock.wire.shapes import names_in
from tests.support.raw import API_VERSIONS, DESCRIBE_GROUPS, METADATA, RawClient

# API: (first, last) version that clients count on. More is welcome; less is not.
SERVED = {
    0: (0, 9), 1: (4, 12), 2: (1, 7), 3: (0, 12), 8: (2, 8), 9: (1, 8), 10: (0, 4), 11: (0, 9), 12: (0, 4),
    13: (0, 5), 14: (0, 5), 15: (0, 5), 16: (0, 5), 18: (0, 4), 19: (2, 7), 20: (1, 6), 21: (0, 2),
    22: (0, 4), 23: (2, 4), 32: (1, 4), 33: (0, 2), 35: (1, 4), 37: (0, 3), 42: (0, 2), 43: (0, 2),
    44: (0, 1), 45: (0, 0), 46: (0, 0), 47: (0, 0), 60: (0, 1),
}  # fmt: skip

DESCRIBE_CONFIGS = 32

# Advertised for the sake of older clients, never served: see test_raw_batches.py.
REFUSED = {(0, 0), (0, 1), (0, 2)}

# What an otherwise empty body must say to be a request at all.
LEAST: dict[str, dict[str, Any]] = {
    "produce": {"acks": -1},
    "fetch": {"replica_id": -1, "session_epoch": -1},
    "list_offsets": {"replica_id": -1},
    "offset_for_leader_epoch": {"replica_id": -2},
    "api_versions": {"client_software_name": "raw", "client_software_version": "1"},
    "init_producer_id": {
        "transaction_timeout": timedelta(seconds=10),
        "producer_id": -1,
        "producer_epoch": -1,
    },
}


def advertised(raw: RawClient) -> dict[int, tuple[int, int]]:
    answer = raw.request(API_VERSIONS, 0, {})
    return {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}


def test_what_clients_count_on_is_served(raw: RawClient) -> None:
    offered = advertised(raw)
    missing = {
        api_key_map[key]: (wanted, offered.get(key))
        for key, wanted in SERVED.items()
        if key not in offered or offered[key][0] > wanted[0] or offered[key][1] < wanted[1]
    }
    assert not missing


@pytest.mark.parametrize("key", SERVED, ids=[api_key_map[key] for key in SERVED])
@pytest.mark.parametrize("including", [False, True], ids=["least", "including all"])
def test_an_answer_in_every_advertised_version(
    raw: RawClient, bootstrap: str, topic: str, key: int, including: bool
) -> None:
    """With the least that a request can ask for, and with all that it can ask to be included."""
    raw.create_topic(topic)
    first, last = advertised(raw)[key]
    for version in range(first, last + 1):
        if (key, version) in REFUSED:
            continue
        known = names_in(load_request_schema(key, version))
        body = {name: value for name, value in LEAST.get(api_key_map[key], {}).items() if name in known}
        if including:
            body |= {name: True for name in known if name.startswith("include_")}
            body |= {name: value for name, value in about(topic).get(key, {}).items() if name in known}
        with RawClient(bootstrap) as client:
            # `request` fails unless all of the answer, and nothing but the answer, can be read.
            client.request(key, version, body)


def about(topic: str) -> dict[int, dict[str, Any]]:
    """Bodies that have something to include."""
    return {
        METADATA: {"topics": [{"name": topic}]},
        DESCRIBE_GROUPS: {"groups": [topic]},
        DESCRIBE_CONFIGS: {"resources": [{"resource_type": 2, "resource_name": topic}]},
    }


def test_authorized_operations_are_told_when_asked_for(raw: RawClient, topic: str) -> None:
    """Metadata had those of the cluster in versions 8 to 10 only; DescribeCluster took them over."""
    not_asked_for = -(2**31)
    raw.create_topic(topic)
    for version in (8, 9, 10):
        body: dict[str, Any] = {"topics": [{"name": topic}]}
        answer = raw.request(METADATA, version, body)
        assert answer.cluster_authorized_operations == not_asked_for
        assert answer.topics[0].topic_authorized_operations == not_asked_for
        flags = {"include_cluster_authorized_operations": True, "include_topic_authorized_operations": True}
        answer = raw.request(METADATA, version, body | flags)
        assert answer.cluster_authorized_operations > 0
        assert answer.topics[0].topic_authorized_operations > 0
