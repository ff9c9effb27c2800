"""The four queries as steps from DataFrame to DataFrame; each ends in the `select` that is its contract.

`clean` → `distances` → `stopovers` → `collapse` work on every row of the table, in one pass. Few rows matter
one by one: flights with three or more stopovers, and those that are or may be longer than four times the
direct way. They keep their details; all others are only counted by route and fare. The collapsed table is
small whatever the size of the file, and everything else is derived from it. Rows that are the same in all of
this are separate flights: `flights` says how many there are.

Expressions are SQL: every call of a function in `pyspark.sql.functions` is several round trips to the JVM,
and together they would cost a warm session more time than some of the queries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from penstock.pipelines.flights.places import EARTH_RADIUS_KM, KM_PER_MILE
from penstock.pipelines.flights.schemas import (
    EMPTY_AIRPORT,
    EMPTY_LEG_ID,
    NO_SEGMENTS,
    SEGMENT_SEPARATOR,
    UNKNOWN_AIRPORT,
    UNPARSABLE_DISTANCE,
    UNPARSABLE_DURATION,
    UNPARSABLE_FARE,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STOPOVERS_MIN: Final = 3
DETOUR_FACTOR: Final = 4
FASTEST: Final = 2

# \z and not $, which would also match before a carriage return at the end.
NUMBER: Final = r"\A *[+]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)? *\z"
SIGNED_NUMBER: Final = NUMBER.replace("[+]?", "[+-]?")
DURATION: Final = r"\AP(?=.)(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})S)?)?\z"
DURATION_SECONDS: Final = {1: 86_400, 2: 3_600, 3: 60, 4: 1}
"""What a unit of each group of the pattern is worth."""

ROUTE: Final = ("startingAirport", "destinationAirport")
COUNTED: Final = (*ROUTE, "totalFare", "left_out_q2", "left_out_q3")
DETAILS: Final = ("legId", "travelDuration", "arrivals", "many", "totalTravelDistance", "direct")

ARRIVAL_CODES: Final = r"split(arrivals, r'\|\|')"
STOPOVERS: Final = (
    f"array_join(slice({ARRIVAL_CODES}, 1, size({ARRIVAL_CODES}) - 1), '{SEGMENT_SEPARATOR}') AS stopovers"
)


def clean_airports(rows: DataFrame) -> DataFrame:
    """Code and position, in radians, of airports whose position is known; of two with one code the first."""
    return (
        rows.where("rejected IS NULL")
        .selectExpr(
            "trim(`Airport Code`) AS code",
            f"{number('Latitude', SIGNED_NUMBER)} AS latitude",
            f"{number('Longitude', SIGNED_NUMBER)} AS longitude",
            "monotonically_increasing_id() AS line",
        )
        .where("code <> '' AND abs(latitude) <= 90 AND abs(longitude) <= 360")
        .coalesce(1)  # an airports file is small
        .selectExpr(
            "code", "struct(line, radians(latitude) AS latitude, radians(longitude) AS longitude) AS place"
        )
        .groupBy("code")
        .agg({"place": "min"})
        .selectExpr("code", "`min(place)`.latitude", "`min(place)`.longitude")
    )


def clean(rows: DataFrame) -> DataFrame:
    """Numbers parsed; why a row cannot be used in `rejected`, why only query 2 cannot in `left_out_q2`."""
    # Numbers in a `select` of their own: Spark then parses them once, not wherever they are looked at.
    parsed = rows.selectExpr(
        "*",
        f"{number('totalFare', NUMBER)} AS fare",
        f"{number('totalTravelDistance', NUMBER)} AS distance",
        "trim(totalTravelDistance) = '' AS no_distance",
    )
    infinity = "double('Infinity')"
    return parsed.selectExpr(
        "legId",
        *ROUTE,
        "fare AS totalFare",
        "travelDuration",
        "distance AS totalTravelDistance",
        "segmentsArrivalAirportCode AS arrivals",
        f"""CASE WHEN rejected IS NOT NULL THEN rejected
                 WHEN legId = '' THEN '{EMPTY_LEG_ID}'
                 WHEN startingAirport = '' OR destinationAirport = '' THEN '{EMPTY_AIRPORT}'
                 WHEN fare IS NULL OR fare = {infinity} THEN '{UNPARSABLE_FARE}'
            END AS rejected""",
        f"""CASE WHEN no_distance AND segmentsArrivalAirportCode = '' THEN '{NO_SEGMENTS}'
                 WHEN no_distance THEN NULL
                 WHEN distance IS NULL OR distance = {infinity} THEN '{UNPARSABLE_DISTANCE}'
            END AS left_out_q2""",
    )


def distances(flights: DataFrame, airports: DataFrame) -> DataFrame:
    """With the direct distance in miles, which query 2 cannot do without."""
    kept = [name for name in flights.columns if name != "left_out_q2"]
    return (
        flights.alias("flight")
        .join(airports.alias("start").hint("broadcast"), on_code("startingAirport", "start"), "left")
        .join(airports.alias("end").hint("broadcast"), on_code("destinationAirport", "end"), "left")
        .selectExpr("flight.*", f"{miles('start', 'end')} AS direct")
        .selectExpr(
            *kept,
            f"coalesce(left_out_q2, CASE WHEN direct IS NULL THEN '{UNKNOWN_AIRPORT}' END) AS left_out_q2",
            "direct",
        )
    )


def stopovers(flights: DataFrame) -> DataFrame:
    """With `many`: whether there are three or more stopovers. Query 3 must be able to read their duration."""
    # A string cut at its third separator is most often the string itself, and that is cheap to see.
    many = f"""substring_index(arrivals, '{SEGMENT_SEPARATOR}', {STOPOVERS_MIN}) <> arrivals
               AND size({ARRIVAL_CODES}) > {STOPOVERS_MIN}"""
    return flights.selectExpr("*", f"coalesce({many}, false) AS many").selectExpr(
        "*",
        f"""CASE WHEN many AND NOT travelDuration RLIKE r'{DURATION}' THEN '{UNPARSABLE_DURATION}'
            END AS left_out_q3""",
    )


def collapse(flights: DataFrame) -> DataFrame:
    """Counted by route and fare, except what the queries list one by one: only that has a legId."""
    far = f"""left_out_q2 IS NULL
              AND (totalTravelDistance IS NULL OR totalTravelDistance > {DETOUR_FACTOR} * direct)"""
    return (
        flights.selectExpr("*", f"rejected IS NULL AND (many OR {far}) AS detailed")
        .selectExpr(
            "rejected",
            *(f"CASE WHEN rejected IS NULL THEN {name} END AS {name}" for name in COUNTED),
            *(f"CASE WHEN detailed THEN {name} END AS {name}" for name in DETAILS),
        )
        .groupBy("rejected", *COUNTED, *DETAILS)
        .count()
        .selectExpr("rejected", *COUNTED, *DETAILS, "count AS flights")
    )


def totals(collapsed: DataFrame) -> DataFrame:
    """Flights and the sum of their fares, by what they were rejected or left out for."""
    return (
        collapsed.selectExpr(
            "rejected", "left_out_q2", "left_out_q3", "flights", "totalFare * flights AS fares"
        )
        .groupBy("rejected", "left_out_q2", "left_out_q3")
        .sum("flights", "fares")
        .selectExpr(
            "rejected", "left_out_q2", "left_out_q3", "`sum(flights)` AS flights", "`sum(fares)` AS fares"
        )
    )


def completed(collapsed: DataFrame, airports: DataFrame) -> DataFrame:
    """Candidates of query 2, with missing totals summed along the path: null if an airport is not known."""
    candidates = collapsed.where("legId IS NOT NULL AND left_out_q2 IS NULL").selectExpr(
        "legId",
        *ROUTE,
        "totalTravelDistance",
        "direct",
        "flights",
        "CASE WHEN totalTravelDistance IS NULL THEN arrivals END AS arrivals",
    )
    lengths = path_lengths(candidates.where("arrivals IS NOT NULL"), airports)
    return candidates.join(lengths, ["startingAirport", "arrivals"], "left").selectExpr(
        "legId", *ROUTE, "coalesce(totalTravelDistance, length) AS totalTravelDistance", "direct", "flights"
    )


def path_lengths(flights: DataFrame, airports: DataFrame) -> DataFrame:
    """The miles along startingAirport and the arrival codes, in order, once for each distinct path."""
    path = ("startingAirport", "arrivals")
    return (
        flights.select(*path)
        .distinct()
        .selectExpr(*path, f"posexplode(concat(array(startingAirport), {ARRIVAL_CODES})) AS (position, code)")
        .join(airports.hint("broadcast"), "code", "left")
        .selectExpr(*path, "struct(position, latitude, longitude) AS stop")
        .groupBy(*path)
        .agg({"stop": "collect_list"})
        .selectExpr(*path, "array_sort(`collect_list(stop)`) AS stops")
        .selectExpr(
            *path,
            f"""aggregate(
                   zip_with(slice(stops, 1, size(stops) - 1), slice(stops, 2, size(stops)),
                            (here, there) -> {miles("here", "there")}),
                   double(0), (length, leg) -> length + leg) AS length""",
        )
    )


def many_stopovers(collapsed: DataFrame) -> DataFrame:
    """Query 1: flights with three or more stopovers."""
    return one_by_one(collapsed.where("many").selectExpr("legId", *ROUTE, "totalFare", STOPOVERS, "flights"))


def far(candidates: DataFrame) -> DataFrame:
    """Query 2: of the `completed` flights those longer than four times the direct distance.

    With the flights that an unknown airport on their way leaves out; `left_out` tells them apart.
    """
    return one_by_one(
        candidates.where(
            f"totalTravelDistance IS NULL OR totalTravelDistance > {DETOUR_FACTOR} * direct"
        ).selectExpr(
            "legId",
            *ROUTE,
            "totalTravelDistance",
            f"CASE WHEN totalTravelDistance IS NULL THEN '{UNKNOWN_AIRPORT}' END AS left_out",
            "flights",
        )
    )


def fastest(collapsed: DataFrame) -> DataFrame:
    """Query 3: of the flights with three or more stopovers the two fastest of each route, in this order."""
    seconds = " + ".join(
        f"coalesce(try_cast(regexp_extract(travelDuration, r'{DURATION}', {group}) AS bigint), 0) * {unit}"
        for group, unit in DURATION_SECONDS.items()
    )
    rank = f"""row_number() OVER (PARTITION BY {", ".join(ROUTE)}
                   ORDER BY seconds, legId, totalFare, stopovers, travelDuration) AS rank"""
    flights = collapsed.where("many AND left_out_q3 IS NULL").selectExpr(
        "legId",
        *ROUTE,
        "travelDuration",
        STOPOVERS,
        "totalFare",
        f"{seconds} AS seconds",
        f"least(flights, {FASTEST}) AS flights",  # of flights that are all the same, two are enough
    )
    return (
        one_by_one(flights)
        .selectExpr("*", rank)
        .where(f"rank <= {FASTEST}")
        .coalesce(1)
        .sortWithinPartitions(*ROUTE, "rank")
        .select("legId", *ROUTE, "travelDuration", "stopovers")
    )


def expensive(collapsed: DataFrame, average_fare: float) -> DataFrame:
    """Query 4: average and maximum fare, by route, of the flights above the general average."""
    return (
        collapsed.where(f"totalFare > double('{average_fare!r}')")
        .selectExpr(*ROUTE, "totalFare", "flights", "totalFare * flights AS fares")
        .groupBy(*ROUTE)
        .agg({"fares": "sum", "flights": "sum", "totalFare": "max"})
        .coalesce(1)
        .sortWithinPartitions(*ROUTE)
        .selectExpr(*ROUTE, "`sum(fares)` / `sum(flights)` AS avgFare", "`max(totalFare)` AS maxFare")
    )


def one_by_one(flights: DataFrame) -> DataFrame:
    """Each flight a row again."""
    columns = [name for name in flights.columns if name != "flights"]
    return flights.selectExpr(*columns, "explode(sequence(1, flights)) AS flight").select(*columns)


def number(column: str, pattern: str) -> str:
    """A number as people write it: Java would also take `0x1p3`, `1d` and `NaN`. (`1e999` is infinity.)"""
    return f"CASE WHEN {column} RLIKE r'{pattern}' THEN try_cast({column} AS double) END"


def on_code(column: str, airport: str) -> Column:
    return F.expr(f"{column} = {airport}.code")


def miles(here: str, there: str) -> str:
    """The great circle between two places with a position in radians, by the haversine formula."""
    chord = f"""(pow(sin(({there}.latitude - {here}.latitude) / 2), 2)
                 + cos({here}.latitude) * cos({there}.latitude)
                   * pow(sin(({there}.longitude - {here}.longitude) / 2), 2))"""
    # Rounding can bring the ends of the earth more than a diameter apart. (`least` would pass over a null.)
    capped = f"CASE WHEN {chord} > 1 THEN double(1) ELSE {chord} END"
    return f"double({EARTH_RADIUS_KM}) * 2 * asin(sqrt({capped})) / double({KM_PER_MILE})"
