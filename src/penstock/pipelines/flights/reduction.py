"""From rows of the table to what the queries need of them, in Arrow, a batch at a time.

Few rows matter one by one: flights with three or more stopovers, and those longer than four times the direct
way. They go on with their details. Of all flights only the fares of their route matter, and fares are cents
and repeat: they go on as one row per route, with a list of its fares and one of how often each occurs. What
leaves here is a fraction of the file, whatever its size, and it leaves the process that parsed the file:
nothing else travels to Spark.

When query 3 is asked about all flights of a route, the fastest of each go on as well, once more where they
matter already: two of a great many, and those of which nobody can say how long they take.

`clean`, `distances` and `stopovers` work on whole columns. Where a step is about routes or paths, it is done
once for each that occurs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipelines.flights.numbers import numbers
from penstock.pipelines.flights.schemas import (
    EMPTY_AIRPORT,
    EMPTY_LEG_ID,
    NO_SEGMENTS,
    SEGMENT_SEPARATOR,
    UNKNOWN_AIRPORT,
    UNPARSABLE_DISTANCE,
    UNPARSABLE_FARE,
)

if TYPE_CHECKING:
    from penstock.pipelines.flights.geography import Airports

STOPOVERS_MIN: Final = 3
DETOUR_FACTOR: Final = 4
FASTEST: Final = 2
DURATION: Final = re.compile(
    r"P(?=.)(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})S)?)?", re.ASCII
)
DURATION_UNITS: Final = (86_400, 3_600, 60, 1)
COUNTED_ROWS_MAX: Final = 500_000
"""Rows that wait to be counted together; the more, the better they collapse."""

PAIRS_REMEMBERED: Final = 100_000
"""Routes and paths occur in every batch; their lengths are computed once, unless there are very many."""

Miles = Callable[[str, str], float | None]
"""From an airport to another, or along a path of several."""

ROUTE: Final = ["startingAirport", "destinationAirport"]
ROUTE_KEYS: Final = ["rejected", *ROUTE, "left_out_q2"]
DETAILS: Final = {
    "legId": pa.string(),
    "totalFare": pa.float64(),
    "travelDuration": pa.string(),
    "arrivals": pa.string(),
    "many": pa.bool_(),
    "totalTravelDistance": pa.float64(),
    "far": pa.bool_(),
    "fast": pa.bool_(),
}
"""Columns of a flight that matters by itself."""
TOTALS: Final = {
    "flights": pa.int64(),
    "fareSum": pa.float64(),
    "fares": pa.list_(pa.float64()),
    "counts": pa.list_(pa.int64()),
}
"""Columns of a route: how many flights, what they cost together, each fare and how often it occurs."""
SCHEMA: Final = pa.schema([*((name, pa.string()) for name in ROUTE_KEYS), *DETAILS.items(), *TOTALS.items()])
DDL: Final = (
    "rejected string, startingAirport string, destinationAirport string, left_out_q2 string, "
    "legId string, totalFare double, travelDuration string, arrivals string, many boolean, "
    "totalTravelDistance double, far boolean, fast boolean, "
    "flights bigint, fareSum double, fares array<double>, counts array<bigint>"
)
# Not `pa.scalar`, which imports pandas: whoever imports this module would pay for it.
_NO_TEXT: Final = pa.nulls(1, pa.string())[0]
_NO_NUMBER: Final = pa.nulls(1, pa.float64())[0]


def reduce_rows(
    batches: Iterable[pa.RecordBatch], airports: Airports, fastest_of_all: bool = False
) -> Iterator[pa.RecordBatch]:
    """The flights that matter with their details, and all flights by route.

    In `fast` is null, unless query 3 is about all flights: then it tells the rows that are for query 3 alone.
    """
    direct = lru_cache(PAIRS_REMEMBERED)(airports.maybe_miles)
    along = lru_cache(PAIRS_REMEMBERED)(airports.maybe_miles_along)
    waiting: list[pa.RecordBatch] = []
    leading: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        flights = stopovers(distances(clean(batch), direct, along))
        details = flights.filter(
            pc.and_(pc.is_null(flights["rejected"]), pc.or_(flights["many"], flights["far"]))
        )
        if details.num_rows:
            yield listed(details, fast=False if fastest_of_all else None)
        if fastest_of_all:
            leading.append(fastest(flights))
        waiting.append(flights.select([*ROUTE_KEYS, "totalFare"]))
        rows += flights.num_rows
        if rows >= COUNTED_ROWS_MAX:
            yield from fastest_together(leading)
            yield from by_route(waiting)
            waiting, leading, rows = [], [], 0
    yield from fastest_together(leading)
    yield from by_route(waiting)


def clean(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Numbers parsed; why a row cannot be used in `rejected`, why only query 2 cannot in `left_out_q2`."""
    fare, written = numbers(rows["totalFare"]), rows["totalTravelDistance"]
    missing = pc.equal(pc.utf8_trim(written, " "), "")
    distance = numbers(pc.if_else(missing, _NO_TEXT, written))
    arrivals = rows["segmentsArrivalAirportCode"]
    rejected = pc.coalesce(
        rows["rejected"],
        reason(pc.equal(rows["legId"], ""), EMPTY_LEG_ID),
        reason(pc.or_(pc.equal(rows[ROUTE[0]], ""), pc.equal(rows[ROUTE[1]], "")), EMPTY_AIRPORT),
        reason(pc.is_null(fare), UNPARSABLE_FARE),
    )
    left_out = pc.coalesce(
        reason(pc.and_(missing, pc.equal(arrivals, "")), NO_SEGMENTS),
        reason(pc.and_(pc.invert(missing), pc.is_null(distance)), UNPARSABLE_DISTANCE),
    )
    usable = pc.is_null(rejected)
    return pa.RecordBatch.from_pydict(
        {
            "rejected": rejected,
            **{name: pc.if_else(usable, rows[name], _NO_TEXT) for name in ROUTE},
            "totalFare": pc.if_else(usable, fare, _NO_NUMBER),
            "left_out_q2": pc.if_else(usable, left_out, _NO_TEXT),
            "legId": rows["legId"],
            "travelDuration": rows["travelDuration"],
            "arrivals": arrivals,
            "totalTravelDistance": distance,
        }
    )


def reason(applies: pa.Array, text: str) -> pa.Array:
    return pc.if_else(pc.fill_null(applies, False), pa.scalar(text), _NO_TEXT)


def distances(flights: pa.RecordBatch, direct_miles: Miles, miles_along: Miles) -> pa.RecordBatch:
    """Missing totals completed, and `far`: whether the total is more than four times the direct distance."""
    direct = for_each_pair(flights[ROUTE[0]], flights[ROUTE[1]], direct_miles)
    total, left_out = flights["totalTravelDistance"], flights["left_out_q2"]
    left_out = pc.coalesce(
        left_out, reason(pc.and_(pc.is_null(direct), pc.is_null(flights["rejected"])), UNKNOWN_AIRPORT)
    )
    open_ended = pc.and_(pc.is_null(total), pc.and_(pc.is_null(left_out), pc.is_null(flights["rejected"])))
    if pc.any(open_ended).as_py():
        starts, arrivals = (flights[name].filter(open_ended) for name in (ROUTE[0], "arrivals"))
        lengths = for_each_pair(starts, arrivals, miles_along)
        total = pc.replace_with_mask(total, open_ended, lengths)
        left_out = pc.coalesce(left_out, reason(pc.and_(open_ended, pc.is_null(total)), UNKNOWN_AIRPORT))
    far = pc.and_(pc.is_null(left_out), pc.greater(total, pc.multiply(direct, float(DETOUR_FACTOR))))
    columns = {name: flights[name] for name in flights.schema.names}
    columns |= {"totalTravelDistance": total, "left_out_q2": left_out, "far": pc.fill_null(far, False)}
    return pa.RecordBatch.from_pydict(columns)


def for_each_pair(starts: pa.Array, others: pa.Array, miles: Miles) -> pa.Array:
    """A column of miles, asked for once for each pair that occurs."""
    pairs = pc.binary_join_element_wise(starts, others, "\n").dictionary_encode()  # no field has a line feed
    lengths = [None if pair is None else miles(*pair.split("\n")) for pair in pairs.dictionary.to_pylist()]
    return pa.array(lengths, pa.float64()).take(pairs.indices)


def stopovers(flights: pa.RecordBatch) -> pa.RecordBatch:
    """With `many`: whether there are three or more. Stopovers are the arrival codes but the last."""
    separators = pc.count_substring(flights["arrivals"], SEGMENT_SEPARATOR)
    many = pc.fill_null(pc.greater_equal(separators, STOPOVERS_MIN), False)
    return flights.append_column("many", many)


def fastest(flights: pa.RecordBatch) -> pa.RecordBatch:
    """Of each route the two fastest flights, in the order of query 3, and all without a duration."""
    flights = flights.filter(pc.is_null(flights["rejected"]))
    seconds = for_each(flights["travelDuration"], duration_seconds, pa.int64())
    untimed = flights.filter(pc.is_null(seconds))
    timed = flights.filter(pc.is_valid(seconds))
    order = {
        "route": pc.binary_join_element_wise(timed[ROUTE[0]], timed[ROUTE[1]], "\n"),
        "seconds": seconds.filter(pc.is_valid(seconds)),
        "legId": timed["legId"],
        "totalFare": timed["totalFare"],
        "stopovers": for_each(timed["arrivals"], stopovers_of, pa.string()),
        "travelDuration": timed["travelDuration"],
    }
    ranked = pc.sort_indices(pa.table(order), sort_keys=[(name, "ascending") for name in order])
    route = order["route"].take(ranked)
    before = pa.concat_arrays([pa.nulls(min(FASTEST, len(route)), pa.string()), route[:-FASTEST]])
    first = ranked.filter(pc.fill_null(pc.not_equal(route, before), True))
    found = pa.Table.from_batches([timed.take(first), untimed]).combine_chunks().to_batches()
    return found[0] if found else untimed


def fastest_together(leading: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Of the fastest of several batches."""
    flights = pa.Table.from_batches(leading).combine_chunks() if leading else None
    if flights is not None and flights.num_rows:
        found = fastest(flights.to_batches()[0])
        no = pa.repeat(pa.scalar(False), found.num_rows)
        columns = {name: found[name] for name in found.schema.names} | {"many": no, "far": no}
        yield listed(pa.RecordBatch.from_pydict(columns), fast=True)


def for_each(values: pa.Array, function: Callable[[str], Any], kind: pa.DataType) -> pa.Array:
    """A column of what the function says, asked once for each value that occurs."""
    encoded = values.dictionary_encode()
    return pa.array(map(function, encoded.dictionary.to_pylist()), kind).take(encoded.indices)


def duration_seconds(text: str) -> int | None:
    """As the transform `durations` has it."""
    found = DURATION.fullmatch(text)
    if found is None:
        return None
    return sum(int(number or 0) * unit for number, unit in zip(found.groups(), DURATION_UNITS, strict=True))


def stopovers_of(arrivals: str) -> str:
    return SEGMENT_SEPARATOR.join(arrivals.split(SEGMENT_SEPARATOR)[:-1])


def listed(details: pa.RecordBatch, fast: bool | None) -> pa.RecordBatch:
    details = details.append_column("fast", pa.repeat(pa.scalar(fast, pa.bool_()), details.num_rows))
    arrays = [details[name] for name in (*ROUTE_KEYS, *DETAILS)]
    nothing = [pa.nulls(details.num_rows, kind) for kind in TOTALS.values()]
    return pa.RecordBatch.from_arrays([*arrays, *nothing], schema=SCHEMA)


def by_route(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if not batches:
        return
    fares = group(pa.Table.from_batches(batches), [*ROUTE_KEYS, "totalFare"], [([], "count_all")])
    fares = fares.append_column("fareSum", pc.multiply(fares["totalFare"], fares["count_all"]))
    routes = group(
        fares,
        ROUTE_KEYS,
        [("count_all", "sum"), ("fareSum", "sum"), ("totalFare", "list"), ("count_all", "list")],
    )
    for batch in routes.combine_chunks().to_batches():
        nothing = [pa.nulls(batch.num_rows, kind) for kind in DETAILS.values()]
        arrays = [*(batch[name] for name in ROUTE_KEYS), *nothing, *batch.columns[len(ROUTE_KEYS) :]]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def group(table: pa.Table, keys: list[str], aggregates: list[tuple[str | list[str], str]]) -> pa.Table:
    """In one thread, so that lists of one group have one order."""
    return table.group_by(keys, use_threads=False).aggregate(aggregates)
