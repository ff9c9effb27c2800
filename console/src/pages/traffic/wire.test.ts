import { describe, expect, it } from "vitest";
import { parseStreets, parseUpdate } from "./wire";

describe("parseUpdate", () => {
  it("takes what the gateway sends", () => {
    const update = parseUpdate({
      window: { start: 0, end: 5000 },
      cells: [{ row: 1, col: 2, lat: 49.2, lon: -123.1, count: 3, speed: 31.5 }],
      newest: 4200,
      totals: {
        sent: 10,
        counted: 6,
        late: 1,
        duplicate: 1,
        malformed: 2,
        reasons: { json: 2 },
        newest: 4200,
      },
    });
    expect(update).toEqual({
      window: { start: 0, end: 5000 },
      cells: [{ row: 1, col: 2, count: 3, speed: 31.5 }],
      newest: 4200,
      totals: { sent: 10, counted: 6, late: 1, duplicate: 1, malformed: 2, reasons: { json: 2 } },
    });
  });

  it("takes a map without heat", () => {
    expect(parseUpdate({ window: null, cells: [], newest: null, totals: null })).toEqual({
      window: null,
      cells: [],
      newest: null,
      totals: null,
    });
  });

  it("leaves out single cells that make no sense", () => {
    const cells = [
      { row: 1, col: 2, count: 3, speed: null },
      { row: -1, col: 0, count: 1 },
      { row: 0, col: 0, count: "1" },
      7,
      null,
    ];
    expect(parseUpdate({ cells })?.cells).toEqual([{ row: 1, col: 2, count: 3, speed: null }]);
  });

  it.each([[null], [7], ["x"], [[]], [{}], [{ cells: {} }]])("refuses %j", (told) => {
    expect(parseUpdate(told)).toBeNull();
  });

  it("does not believe in windows that end before they begin", () => {
    expect(parseUpdate({ cells: [], window: { start: 5, end: 5 } })?.window).toBeNull();
  });
});

describe("parseStreets", () => {
  const line = (coordinates: unknown, properties: unknown = { kind: "avenue", name: "First" }) => ({
    type: "Feature",
    properties,
    geometry: { type: "LineString", coordinates },
  });

  it("takes lines with their kind and name", () => {
    expect(
      parseStreets({
        features: [
          line([
            [1, 2],
            [3, 4],
          ]),
        ],
      }),
    ).toEqual([
      {
        kind: "avenue",
        name: "First",
        path: [
          [1, 2],
          [3, 4],
        ],
      },
    ]);
  });

  it("leaves out what is not a line", () => {
    const features = [
      line([[1, 2]]),
      line("x"),
      { geometry: { type: "Point", coordinates: [1, 2] } },
      null,
      7,
    ];
    expect(parseStreets({ features })).toEqual([]);
    expect(parseStreets(null)).toEqual([]);
  });

  it("takes a street of no kind for a street", () => {
    expect(
      parseStreets({
        features: [
          line(
            [
              [1, 2],
              [3, 4],
            ],
            null,
          ),
        ],
      })[0],
    ).toMatchObject({ kind: "street", name: "" });
  });
});
