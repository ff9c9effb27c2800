"""The four queries as steps from DataFrame to DataFrame; each ends in the `select` that is its contract.

They start from what reduction.py leaves of the table: flights with three or more stopovers (`many`) or longer
than four times the direct way (`far`), each a row with its details, and likewise, if query 3 asks for them,
the fastest of all flights (`fast`, which is null otherwise); and one row for each route with the fares
of all its flights (`flights`, `fareSum`, `fares`, `counts`), also by what they were rejected or left out for.

Flights of several tables can go through together: the columns that tell the tables apart are then given as
`keys`, and come first in what comes out.

Expressions are SQL: every call of a function in `pyspark.sql.functions` is several round trips to the JVM,
and together they would cost a warm session more time than some of the queries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.pipelines.flights.reduction import FASTEST
from penstock.pipelines.flights.schemas import SEGMENT_SEPARATOR, UNPARSABLE_DURATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

# \z and not $, which would also match before a carriage return at the end.
DURATION: Final = r"\AP(?=.)(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})S)?)?\z"
DURATION_SECONDS: Final = {1: 86_400, 2: 3_600, 3: 60, 4: 1}
"""What a unit of each group of the pattern is worth."""

ROUTE: Final = ("startingAirport", "destinationAirport")
ARRIVAL_CODES: Final = r"split(arrivals, r'\|\|')"
STOPOVERS: Final = (
    f"array_join(slice({ARRIVAL_CODES}, 1, size({ARRIVAL_CODES}) - 1), '{SEGMENT_SEPARATOR}') AS stopovers"
)


def durations(flights: DataFrame, keys: Sequence[str] = (), *, fastest_of_all: bool = False) -> DataFrame:
    """With `seconds`, for those that query 3 is about; without a duration `left_out_q3` says why.

    With `fastest_of_all` there may be `fast` flights, which count on routes with a flight that is `many`.
    """
    asked = "many"
    if fastest_of_all:
        route = ", ".join((*keys, *ROUTE))
        flights = flights.selectExpr("*", f"bool_or(many) OVER (PARTITION BY {route}) AS is_asked")
        asked = "coalesce(fast, many) AND is_asked"
    seconds = " + ".join(
        f"coalesce(try_cast(regexp_extract(travelDuration, r'{DURATION}', {group}) AS bigint), 0) * {unit}"
        for group, unit in DURATION_SECONDS.items()
    )
    return flights.selectExpr(
        "*", f"CASE WHEN {asked} AND travelDuration RLIKE r'{DURATION}' THEN {seconds} END AS seconds"
    ).selectExpr(
        "*", f"CASE WHEN {asked} AND seconds IS NULL THEN '{UNPARSABLE_DURATION}' END AS left_out_q3"
    )


def totals(flights: DataFrame, keys: Sequence[str] = ()) -> DataFrame:
    """Flights and the sum of their fares, by what they were rejected or left out for."""
    reasons = (*keys, "rejected", "left_out_q2", "left_out_q3")
    return (
        flights.where("flights IS NOT NULL OR left_out_q3 IS NOT NULL")
        .selectExpr(*reasons, "coalesce(flights, 1) AS flights", "fareSum")
        .groupBy(*reasons)
        .sum("flights", "fareSum")
        .selectExpr(*reasons, "`sum(flights)` AS flights", "`sum(fareSum)` AS fares")
    )


def many_stopovers(flights: DataFrame) -> DataFrame:
    """Query 1: flights with three or more stopovers."""
    return flights.where("many").selectExpr("legId", *ROUTE, "totalFare", STOPOVERS)


def far(flights: DataFrame) -> DataFrame:
    """Query 2: flights longer than four times the direct distance."""
    return flights.where("far").select("legId", *ROUTE, "totalTravelDistance")


def fastest(flights: DataFrame, keys: Sequence[str] = ()) -> DataFrame:
    """Query 3: the two fastest of each route, of the flights that it is about, in this order."""
    route = (*keys, *ROUTE)
    rank = f"""row_number() OVER (PARTITION BY {", ".join(route)}
                   ORDER BY seconds, legId, totalFare, stopovers, travelDuration) AS rank"""
    return (
        flights.where("seconds IS NOT NULL")
        .selectExpr(*keys, "legId", *ROUTE, "travelDuration", STOPOVERS, "totalFare", "seconds")
        .selectExpr("*", rank)
        .where(f"rank <= {FASTEST}")
        .coalesce(1)
        .sortWithinPartitions(*route, "rank")
        .select(*keys, "legId", *ROUTE, "travelDuration", "stopovers")
    )


def expensive(flights: DataFrame, average_fare: float | str, keys: Sequence[str] = ()) -> DataFrame:
    """Query 4: average and maximum fare, by route, of the flights above the general average.

    `average_fare` is the number, or the name of a column that has it.
    """
    route = (*keys, *ROUTE)
    average = average_fare if isinstance(average_fare, str) else f"double('{average_fare!r}')"
    kept = [average_fare] if isinstance(average_fare, str) else []
    return (
        flights.where("rejected IS NULL AND flights IS NOT NULL")
        .selectExpr(*route, *kept, "inline(arrays_zip(fares, counts))")
        .where(f"fares > {average}")
        .selectExpr(*route, "fares AS fare", "counts AS flights", "fares * counts AS fares")
        .groupBy(*route)
        .agg({"fares": "sum", "flights": "sum", "fare": "max"})
        .coalesce(1)
        .sortWithinPartitions(*route)
        .selectExpr(*route, "`sum(fares)` / `sum(flights)` AS avgFare", "`max(fare)` AS maxFare")
    )
