import { describe, expect, it } from "vitest";
import { NO_HEAT, applyUpdate, blend, busiest, summarize, type HeatState } from "./heat";
import type { CellCount, HeatUpdate } from "./wire";

const cell = (row: number, col: number, count: number, speed: number | null = 30): CellCount => ({
  row,
  col,
  count,
  speed,
});

const update = (start: number, newest: number | null, cells: CellCount[]): HeatUpdate => ({
  window: { start, end: start + 5000 },
  cells,
  newest,
  totals: null,
});

const after = (...updates: HeatUpdate[]): HeatState => updates.reduce(applyUpdate, NO_HEAT);

const rateAt = (state: HeatState, row: number, col: number): number =>
  blend(state).find((each) => each.row === row && each.col === col)?.rate ?? 0;

describe("applyUpdate", () => {
  it("replaces counts, since they are absolute, and keeps cells that an update does not name", () => {
    const state = after(update(0, 1000, [cell(0, 0, 5), cell(0, 1, 7)]), update(0, 2000, [cell(0, 0, 9)]));
    expect(state.windows).toHaveLength(1);
    expect([...(state.windows[0]?.cells.values() ?? [])].map((each) => each.count)).toEqual([9, 7]);
    expect(state.newest).toBe(2000);
  });

  it("keeps the last windows in their order, whatever order they come in", () => {
    const state = after(
      update(10_000, 11_000, [cell(0, 0, 1)]),
      update(5_000, 11_000, [cell(0, 0, 1)]),
      update(15_000, 16_000, [cell(0, 0, 1)]),
      update(20_000, 21_000, [cell(0, 0, 1)]),
    );
    expect(state.windows.map((each) => each.start)).toEqual([10_000, 15_000, 20_000]);
    expect(
      after(update(10_000, 11_000, []), update(5_000, 11_000, [])).windows.map((each) => each.start),
    ).toEqual([5_000, 10_000]);
  });

  it("does not go back in time for a late update, but starts over on another run", () => {
    const state = after(update(100_000, 104_000, [cell(0, 0, 1)]), update(95_000, 103_000, [cell(0, 0, 2)]));
    expect(state.newest).toBe(104_000);
    const anew = applyUpdate(state, update(0, 1000, [cell(3, 3, 1)]));
    expect(anew.newest).toBe(1000);
    expect(anew.windows.map((each) => each.start)).toEqual([0]);
  });

  it("takes totals without a window", () => {
    const totals = { sent: 1, counted: 1, late: 0, duplicate: 0, malformed: 0, reasons: {} };
    const state = applyUpdate(after(update(0, 1000, [cell(0, 0, 1)])), {
      window: null,
      cells: [],
      newest: null,
      totals,
    });
    expect(state.totals).toBe(totals);
    expect(state.newest).toBe(1000);
    expect(state.windows).toHaveLength(1);
  });

  it("leaves what it was given as it was", () => {
    const first = after(update(0, 1000, [cell(0, 0, 5)]));
    applyUpdate(first, update(0, 2000, [cell(0, 0, 9)]));
    expect(first.windows[0]?.cells.get("0.0")?.count).toBe(5);
  });
});

describe("blend", () => {
  it("does not pulse: a steady cell has a steady rate at every moment of a window", () => {
    // 20 positions per second: 100 in a full window, in proportion in the one that fills.
    for (let passed = 0; passed <= 5000; passed += 250) {
      const state = after(
        update(0, 5000, [cell(0, 0, 100)]),
        update(5000, 5000 + passed, [cell(0, 0, passed / 50)]),
      );
      expect(rateAt(state, 0, 0)).toBeCloseTo(20);
    }
  });

  it("does not jump when a window follows another", () => {
    const full = after(update(0, 5000, [cell(0, 0, 40)]), update(5000, 10_000, [cell(0, 0, 90)]));
    const next = after(
      update(0, 5000, [cell(0, 0, 40)]),
      update(5000, 10_000, [cell(0, 0, 90)]),
      update(10_000, 10_000, [cell(0, 0, 0, null)]),
    );
    expect(rateAt(next, 0, 0)).toBeCloseTo(rateAt(full, 0, 0));
  });

  it("lets a cell fade that has emptied, and leaves it out in the end", () => {
    const at = (newest: number): number =>
      rateAt(after(update(0, 5000, [cell(2, 2, 50)]), update(5000, newest, [cell(0, 0, 1)])), 2, 2);
    expect(at(5000)).toBeCloseTo(10);
    expect(at(7500)).toBeCloseTo(5);
    expect(
      blend(after(update(0, 5000, [cell(2, 2, 50)]), update(5000, 10_000, [cell(0, 0, 1)]))),
    ).toHaveLength(1);
  });

  it("weighs speeds by how many were counted", () => {
    const state = after(update(0, 5000, [cell(0, 0, 20, 10)]), update(5000, 7500, [cell(0, 0, 30, 50)]));
    // Half of the 20 of before still count.
    expect(blend(state)[0]?.speed).toBeCloseTo((10 * 10 + 30 * 50) / 40);
  });

  it("knows no speed where nobody has one", () => {
    expect(blend(after(update(0, 5000, [cell(0, 0, 3, null)])))[0]?.speed).toBeNull();
  });

  it("takes a first window by the time that has passed in it", () => {
    expect(rateAt(after(update(0, 2000, [cell(0, 0, 40)])), 0, 0)).toBeCloseTo(20);
    expect(rateAt(after(update(0, 10, [cell(0, 0, 1)])), 0, 0)).toBeCloseTo(1);
  });

  it("does not count on a window that is not the one before", () => {
    const state = after(update(0, 5000, [cell(0, 0, 1000)]), update(20_000, 25_000, [cell(1, 1, 10)]));
    expect(blend(state)).toEqual([{ row: 1, col: 1, rate: 2, speed: 30 }]);
  });

  it("has nothing where there is nothing", () => {
    expect(blend(NO_HEAT)).toEqual([]);
  });
});

describe("summaries", () => {
  it("adds rates and weighs speeds", () => {
    const cells = [
      { row: 0, col: 0, rate: 1, speed: 10 },
      { row: 0, col: 1, rate: 3, speed: 50 },
      { row: 0, col: 2, rate: 4, speed: null },
    ];
    expect(summarize(cells)).toEqual({ rate: 8, speed: 40 });
    expect(summarize([])).toEqual({ rate: 0, speed: null });
  });

  it("lists the busiest first, and ties always in the same order", () => {
    const cells = [
      { row: 0, col: 1, rate: 1, speed: null },
      { row: 1, col: 0, rate: 1, speed: null },
      { row: 0, col: 0, rate: 9, speed: null },
    ];
    expect(busiest(cells, 2).map(({ row, col }) => [row, col])).toEqual([
      [0, 0],
      [1, 0],
    ]);
  });
});
