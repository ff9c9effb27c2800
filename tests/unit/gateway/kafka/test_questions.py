"""Versions that both sides know, and bodies that every such version can carry."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock.gateway.kafka.errors import KafkaUnavailableError
from penstock.gateway.kafka.questions import (
    FETCH,
    LIST_OFFSETS,
    METADATA,
    Api,
    FetchQuestion,
    MetadataQuestion,
    OffsetQuestion,
    Question,
    choose_version,
    served_versions,
)
from penstock.wire.exchange import load_exchange

API = Api("Fetch", 1, 11, 12)


@pytest.mark.parametrize(("served", "chosen"), [((4, 17), 12), ((0, 11), 11), ((12, 18), 12), ((4, 12), 12)])
def test_the_newest_version_of_both_is_chosen(served: tuple[int, int], chosen: int) -> None:
    assert choose_version(API, {1: served}, "b") == chosen


@pytest.mark.parametrize("served", [{1: (4, 10)}, {1: (13, 18)}, {}])
def test_a_broker_of_another_age_is_told_apart(served: dict[int, tuple[int, int]]) -> None:
    with pytest.raises(KafkaUnavailableError, match="of Fetch; 11 to 12 are needed"):
        choose_version(API, served, "broker:1")


def test_served_versions_are_read_by_key() -> None:
    answer = SimpleNamespace(api_keys=[SimpleNamespace(api_key=3, min_version=0, max_version=12)])
    assert served_versions(answer) == {3: (0, 12)}


@pytest.mark.parametrize(
    ("question", "api"),
    [
        (FetchQuestion("t", 0, 4, 17, 1000, 500, "rack"), FETCH),
        (OffsetQuestion("t", 0, 4, -1), LIST_OFFSETS),
        (MetadataQuestion(("t",)), METADATA),
    ],
)
def test_every_version_in_range_can_carry_the_question(question: Question, api: Api) -> None:
    for version in range(api.version_min, api.version_max + 1):
        frame = load_exchange(api.key, version).request(1, "me", question.body(version))
        assert b"t" in frame


def test_a_reader_never_creates_topics() -> None:
    assert MetadataQuestion(("t",)).body(12)["allow_auto_topic_creation"] is False
