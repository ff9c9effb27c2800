import { expect, test } from "vitest";
import { Digest, KEPT_ROWS_MAX, READ_ROWS_MAX } from "./digest";
import { cellText, RESULTS, type ResultRow } from "./results";

const leg = (changes: Record<string, unknown>): Record<string, unknown> => ({
  legId: "a",
  startingAirport: "ATL",
  destinationAirport: "BOS",
  totalFare: 100,
  stopovers: "AAA||BBB||CCC",
  totalTravelDistance: 4_000,
  ...changes,
});

test("stopovers are counted", () => {
  const digest = new Digest("q1");
  for (const stopovers of ["A||B||C", "A||B||C||D", "X||Y||Z", ""]) digest.add(leg({ stopovers }));
  expect([...digest.stopovers]).toEqual([
    [3, 2],
    [4, 1],
    [0, 1],
  ]);
  expect(digest.count).toBe(4);
});

test("a copy stays as it is when more is added", () => {
  for (const query of ["q1", "q2", "q4"] as const) {
    const fares = { avgFare: 300, maxFare: 700 };
    const digest = new Digest(query);
    digest.add(leg(fares));
    const copy = digest.copy();
    digest.add(leg({ ...fares, avgFare: 400, totalTravelDistance: 9_000 }));
    const once = new Digest(query);
    once.add(leg(fares));
    expect([copy.count, copy.rows, [...copy.stopovers], copy.routes]).toEqual([
      once.count,
      once.rows,
      [...once.stopovers],
      once.routes,
    ]);
    expect([copy.distances.count, copy.distances.bins(8)]).toEqual([
      once.distances.count,
      once.distances.bins(8),
    ]);
  }
});

test("distances are counted, those that are none are not", () => {
  const digest = new Digest("q2");
  for (const totalTravelDistance of [4_000, 4_100.5, "?"]) digest.add(leg({ totalTravelDistance }));
  expect(digest.count).toBe(3);
  expect(digest.distances.count).toBe(2);
});

test("the dearest routes are kept", () => {
  const digest = new Digest("q4");
  for (let i = 0; i < 40; i += 1)
    digest.add({ startingAirport: `A${i}`, destinationAirport: "B", avgFare: (i * 7) % 40, maxFare: 99 });
  expect(digest.routes).toHaveLength(12);
  expect(digest.routes.map(({ average }) => average)).toEqual([39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28]);
  expect(digest.routes[0]?.route).toBe("A17 → B");
});

test("what is no row is passed over", () => {
  const digest = new Digest("q1");
  for (const told of [null, 1, "x", {}, { legId: "a" }]) expect(digest.add(told)).toBe(true);
  expect(digest.count).toBe(0);
});

test("memory is bounded, and so is what is read", () => {
  const digest = new Digest("q1");
  let read = 1;
  while (digest.add(leg({}))) read += 1;
  expect(read).toBe(READ_ROWS_MAX);
  expect(digest.rows).toHaveLength(KEPT_ROWS_MAX);
});

test("cells", () => {
  const text = (query: "q1" | "q2" | "q4", row: ResultRow): string[] =>
    RESULTS[query].columns.map((column) => cellText(column, row));
  expect(text("q1", leg({}) as ResultRow)).toEqual(["a", "ATL", "BOS", "100.00", "AAA · BBB · CCC"]);
  expect(text("q2", leg({}) as ResultRow)[3]).toBe("4,000 mi");
  expect(text("q4", { startingAirport: "A", destinationAirport: "B", avgFare: 1234.5, maxFare: null })).toEqual(
    ["A", "B", "1,234.50", ""],
  );
});
