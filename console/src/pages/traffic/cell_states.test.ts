import { describe, expect, it } from "vitest";
import { COLD, CellStates } from "./cell_states";
import type { Grid } from "./grid";
import type { HeatCell } from "./heat";

const GRID: Grid = { west: 0, south: 0, east: 2, north: 2, rows: 2, cols: 2, cells: 2 };
const LARGE: Grid = { ...GRID, cells: 500 };

const cell = (row: number, col: number, rate: number, speed: number | null = 30): HeatCell => ({
  row,
  col,
  rate,
  speed,
});

describe("CellStates", () => {
  it("has all points of a map of usual size from the beginning", () => {
    const states = new CellStates(GRID);
    expect(states.points.features).toHaveLength(16);
    expect(states.points.features.map((each) => each.id)).toEqual(Array.from({ length: 16 }, (_, id) => id));
    expect(states.changes([cell(3, 3, 1)], 1).points).toBeNull();
  });

  it("adds the points of a very large map when they are needed", () => {
    const states = new CellStates(LARGE);
    expect(states.points.features).toHaveLength(0);
    expect(states.changes([cell(0, 7, 1)], 1).points?.features.map((each) => each.id)).toEqual([7]);
    expect(states.changes([cell(0, 7, 2)], 1).points).toBeNull();
  });

  it("changes only what changed", () => {
    const states = new CellStates(GRID);
    expect(states.changes([cell(0, 0, 1), cell(0, 1, 1)], 1).states.map(([id]) => id)).toEqual([0, 1]);
    expect(states.changes([cell(0, 0, 1), cell(0, 1, 0.5)], 1).states.map(([id]) => id)).toEqual([1]);
    expect(states.changes([cell(0, 0, 1), cell(0, 1, 0.5)], 1).states).toEqual([]);
  });

  it("cools cells that are left, once", () => {
    const states = new CellStates(GRID);
    states.changes([cell(0, 0, 1)], 1);
    expect(states.changes([], 1).states).toEqual([[0, COLD]]);
    expect(states.changes([], 1).states).toEqual([]);
  });

  it("does not change what nobody could see", () => {
    const states = new CellStates(GRID);
    states.changes([cell(0, 0, 50)], 100);
    expect(states.changes([cell(0, 0, 50.01)], 100).states).toEqual([]);
  });

  it("has no speed to show where nobody knows one", () => {
    expect(new CellStates(GRID).changes([cell(0, 0, 1, null)], 1).states[0]?.[1]).toMatchObject({
      moves: false,
      heat: 1,
    });
  });

  it("leaves out cells of another map", () => {
    expect(new CellStates(GRID).changes([cell(99, 0, 1)], 1).states).toEqual([]);
  });
});
