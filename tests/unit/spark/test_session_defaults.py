from __future__ import annotations

import os

import pytest

from penstock.spark.defaults import DRIVER_MEMORY_MIB_MAX, DRIVER_MEMORY_MIB_MIN, defaults, local_cores


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[4, 2]", 4),
        ("local[*]", len(os.sched_getaffinity(0))),
        ("spark://a:7077", None),
        ("yarn", None),
        ("local-cluster[2,1,1024]", None),
    ],
)
def test_the_cores_of_a_master(master: str, cores: int | None) -> None:
    assert local_cores(master) == cores


def test_a_cluster_keeps_its_own_shuffle_partitions_and_is_reached_by_the_drivers_address() -> None:
    settings = defaults("spark://a:7077")
    assert settings["spark.master"] == "spark://a:7077"
    assert "spark.sql.shuffle.partitions" not in settings
    assert "spark.driver.host" not in settings


def test_a_local_session_uses_all_cores_and_a_reasonable_share_of_the_memory() -> None:
    settings = defaults(None)
    assert settings["spark.master"] == "local[*]"
    assert int(settings["spark.sql.shuffle.partitions"]) == max(2, len(os.sched_getaffinity(0)))
    memory = int(settings["spark.driver.memory"].removesuffix("m"))
    assert DRIVER_MEMORY_MIB_MIN <= memory <= DRIVER_MEMORY_MIB_MAX
