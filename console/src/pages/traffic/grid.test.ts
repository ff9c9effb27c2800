import { describe, expect, it } from "vitest";
import {
  cellAt,
  cellBox,
  cellCenter,
  cellId,
  parseGrid,
  quadrantBox,
  quadrantIndex,
  quadrantsOf,
  type Grid,
} from "./grid";

const GRID: Grid = { west: 10, south: 50, east: 12, north: 51, rows: 2, cols: 2, cells: 4 };

describe("parseGrid", () => {
  it("takes what the server writes", () => {
    expect(parseGrid({ bbox: [-123.16, 49.205, -123.01, 49.305], rows: 2, cols: 2, cells: 24 })).toEqual({
      west: -123.16,
      south: 49.205,
      east: -123.01,
      north: 49.305,
      rows: 2,
      cols: 2,
      cells: 24,
    });
  });

  it("goes on beyond 180 across the date line", () => {
    expect(parseGrid({ bbox: [179, -18, -179, -16], rows: 1, cols: 2, cells: 2 })?.east).toBe(181);
  });

  it.each([
    [null],
    [[]],
    ["grid"],
    [{}],
    [{ bbox: [1, 2, 3], rows: 1, cols: 1, cells: 1 }],
    [{ bbox: [1, 2, 3, Number.NaN], rows: 1, cols: 1, cells: 1 }],
    [{ bbox: [1, 4, 3, 2], rows: 1, cols: 1, cells: 1 }],
    [{ bbox: [1, 2, 3, 4], rows: 0, cols: 1, cells: 1 }],
    [{ bbox: [1, 2, 3, 4], rows: 1, cols: 1.5, cells: 1 }],
  ])("refuses %j", (told) => {
    expect(parseGrid(told)).toBeNull();
  });
});

describe("quadrants", () => {
  it("are listed as one reads a map", () => {
    expect(quadrantsOf(GRID).map((each) => each.name)).toEqual(["r1.c0", "r1.c1", "r0.c0", "r0.c1"]);
  });

  it("agree with their cells", () => {
    const quadrants = quadrantsOf(GRID);
    for (let row = 0; row < 8; row++) {
      for (let col = 0; col < 8; col++) {
        const quadrant = quadrants[quadrantIndex(GRID, row, col)];
        expect(quadrant).toMatchObject({ row: Math.floor(row / 4), col: Math.floor(col / 4) });
        const [lon, lat] = cellCenter(GRID, row, col);
        const [west, south, east, north] = quadrantBox(GRID, quadrant!);
        expect(lon > west && lon < east && lat > south && lat < north).toBe(true);
      }
    }
  });
});

describe("cells", () => {
  it("are found by a place inside them", () => {
    for (let row = 0; row < 8; row++) {
      for (let col = 0; col < 8; col++)
        expect(cellAt(GRID, ...cellCenter(GRID, row, col))).toEqual({ row, col });
    }
  });

  it("have their south and west edges, and the outer ones of the map", () => {
    expect(cellAt(GRID, 10, 50)).toEqual({ row: 0, col: 0 });
    expect(cellAt(GRID, 11, 50.5)).toEqual({ row: 4, col: 4 });
    expect(cellAt(GRID, 12, 51)).toEqual({ row: 7, col: 7 });
    expect(cellAt(GRID, 12.001, 50.5)).toBeNull();
    expect(cellAt(GRID, 11, 49.999)).toBeNull();
    expect(cellAt(GRID, Number.NaN, 50.5)).toBeNull();
  });

  it("are found on both sides of the date line", () => {
    const wide = parseGrid({ bbox: [179, -18, -179, -16], rows: 1, cols: 1, cells: 2 })!;
    expect(cellAt(wide, 179.5, -17.5)).toEqual({ row: 0, col: 0 });
    expect(cellAt(wide, -179.5, -17.5)).toEqual({ row: 0, col: 1 });
    expect(cellAt(wide, 180.5, -17.5)).toEqual({ row: 0, col: 1 });
  });

  it("have numbers of their own, but not beyond the map", () => {
    expect(cellId(GRID, 0, 7)).toBe(7);
    expect(cellId(GRID, 1, 0)).toBe(8);
    expect(cellId(GRID, 0, 8)).toBeNull();
    expect(cellId(GRID, 8, 0)).toBeNull();
    expect(cellBox(GRID, 7, 7)).toEqual([11.75, 50.875, 12, 51]);
  });
});
