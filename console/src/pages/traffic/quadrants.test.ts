import { describe, expect, it } from "vitest";
import type { Grid } from "./grid";
import { NO_HEAT, applyUpdate, blend, type HeatState } from "./heat";
import { DARK_AFTER_MS, HISTORY_MAX, NO_QUADRANTS, observe, type QuadrantState } from "./quadrants";
import type { CellCount } from "./wire";

const GRID: Grid = { west: 0, south: 0, east: 2, north: 2, rows: 2, cols: 2, cells: 2 };
const NORTH_EAST = { row: 3, col: 3 };
const SOUTH_WEST = { row: 0, col: 0 };

/** Seconds of traffic, ten positions in each quadrant that `busy` names. */
function drive(seconds: number, busy: (second: number) => { row: number; col: number }[]): QuadrantState {
  let heat: HeatState = NO_HEAT;
  let quadrants = NO_QUADRANTS;
  const counts = new Map<string, number>();
  for (let second = 0; second < seconds; second++) {
    const start = Math.floor(second / 5) * 5000;
    const cells = busy(second).map(({ row, col }): CellCount => {
      const key = `${start} ${row} ${col}`;
      counts.set(key, (counts.get(key) ?? 0) + 10);
      return { row, col, count: counts.get(key)!, speed: 30 };
    });
    heat = applyUpdate(heat, {
      window: { start, end: start + 5000 },
      cells,
      newest: second * 1000 + 999,
      totals: null,
    });
    quadrants = observe(quadrants, GRID, heat, blend(heat));
  }
  return quadrants;
}

const named = (state: QuadrantState, name: string) =>
  state.activity.find((each) => each.quadrant.name === name)!;

describe("quadrants", () => {
  it("have the rate of their cells", () => {
    const state = drive(12, () => [NORTH_EAST]);
    expect(named(state, "r1.c1").rate).toBeCloseTo(10, 0);
    expect(named(state, "r1.c1").speed).toBeCloseTo(30);
    expect(named(state, "r0.c0").rate).toBe(0);
    expect(named(state, "r0.c0").speed).toBeNull();
  });

  it("go dark alone when their cars stop, and say since when", () => {
    const state = drive(20, (second) => (second < 10 ? [NORTH_EAST, SOUTH_WEST] : [SOUTH_WEST]));
    expect(named(state, "r1.c1").dark).toBe(true);
    expect(named(state, "r1.c1").lastAt).toBe(9_999);
    expect(named(state, "r0.c0").dark).toBe(false);
  });

  it("come back with the first car", () => {
    const state = drive(21, (second) =>
      second < 10 || second === 20 ? [NORTH_EAST, SOUTH_WEST] : [SOUTH_WEST],
    );
    expect(named(state, "r1.c1").dark).toBe(false);
  });

  it("are not called dark before we have looked for a while", () => {
    expect(drive(DARK_AFTER_MS / 1000, () => [NORTH_EAST]).activity.some((each) => each.dark)).toBe(false);
    expect(
      named(
        drive(DARK_AFTER_MS / 1000 + 1, () => [NORTH_EAST]),
        "r0.c0",
      ).dark,
    ).toBe(true);
  });

  it("are not dark when all of them stand still", () => {
    const state = drive(8, () => [NORTH_EAST, SOUTH_WEST]);
    const heat = NO_HEAT;
    expect(observe(state, GRID, heat, []).activity.filter((each) => each.dark)).toEqual([]);
  });

  it("are not dark when their cells come before the time that they bring, after a break", () => {
    let heat = NO_HEAT;
    let state = NO_QUADRANTS;
    for (const start of [0, 50_000]) {
      const window = { start, end: start + 5000 };
      const cells = [{ ...NORTH_EAST, count: 10, speed: 30 }];
      for (const update of [
        { window, cells, newest: null, totals: null },
        { window: null, cells: [], newest: start + 999, totals: null },
      ]) {
        heat = applyUpdate(heat, update);
        state = observe(state, GRID, heat, blend(heat));
      }
    }
    expect(named(state, "r1.c1").dark).toBe(false);
    expect(named(state, "r1.c1").lastAt).toBe(50_999);
    expect(named(state, "r0.c0").dark).toBe(true);
  });

  it("are not dark when their cells come with the time of the batch before", () => {
    const cells = [{ ...NORTH_EAST, count: 10, speed: 30 }];
    const windowAt = (start: number) => ({ start, end: start + 5000 });
    let heat = applyUpdate(NO_HEAT, { window: windowAt(0), cells, newest: 999, totals: null });
    let state = observe(NO_QUADRANTS, GRID, heat, blend(heat));
    heat = applyUpdate(heat, { window: windowAt(5000), cells, newest: 1_999, totals: null });
    state = observe(state, GRID, heat, blend(heat));
    heat = applyUpdate(heat, { window: null, cells: [], newest: 9_999, totals: null });
    state = observe(state, GRID, heat, blend(heat));
    expect(named(state, "r1.c1").dark).toBe(false);
    expect(named(state, "r1.c1").lastAt).toBe(9_999);
  });

  it("remember a bounded past", () => {
    expect(
      named(
        drive(HISTORY_MAX + 20, () => [NORTH_EAST]),
        "r1.c1",
      ).history,
    ).toHaveLength(HISTORY_MAX);
  });
});
