from __future__ import annotations

from bench.stats import Mark, Target
from bench.table import compared, failed, markdown, reported, show, unavailable

TARGET = Target(1, 1.5)


def test_a_compared_row_shows_medians_and_the_median_of_ratios() -> None:
    row = compared("produce", "Kafka", [100.0, 300.0, 200.0], [100.0, 100.0, 100.0], "msg/s", TARGET)
    assert row.cells() == ("produce", "Kafka", "200 msg/s", "100 msg/s", "2×", "≥ 1×", "≥ 1.5×", "aim met")


def test_a_row_without_target_is_only_reported() -> None:
    row = compared("p99", "Kafka", [3.0, 3.0], [2.0, 2.0], "ms", None)
    assert row.mark is Mark.REPORTED
    assert row.cells()[4:] == ("1.5×", "–", "–", "reported")


def test_a_single_round_is_said() -> None:
    row = compared("p50", "Kafka", [3.0], [2.0], "ms", None, note="noisy")
    assert row.cells()[-1] == "reported (noisy, one round)"


def test_below_the_bar_is_said() -> None:
    assert compared("produce", "Kafka", [90.0], [100.0], "msg/s", TARGET).mark is Mark.BELOW


def test_a_missing_peer_is_a_row_with_its_reason() -> None:
    row = unavailable("produce", "Kafka", TARGET, "no java")
    assert row.cells()[-1] == "not available here (no java)"
    assert row.ratio is None


def test_a_failure_is_not_a_missing_peer() -> None:
    assert failed("consume", "stalled").cells()[-1] == "failed (stalled)"


def test_figures_keep_three_digits_and_group_thousands() -> None:
    assert show(1234567.8, "msg/s") == "1,234,568 msg/s"
    assert show(0.04567, "s") == "0.0457 s"


def test_markdown_escapes_bars_and_names_the_machine() -> None:
    rows = [reported("a|b", "1 MB"), failed("x", "y")]
    text = markdown(rows, {"machine": "two cores"}, "- noted\n")
    assert "- machine: two cores" in text
    assert "| a\\|b | itself | 1 MB |" in text
    assert text.endswith("- noted\n")
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in table} == {9}
