// Heat out of tumbling windows.
//
// The job counts positions per cell in windows of some seconds, and the newest one is still filling. Shown as
// it is, the map would go dark every time that a window begins. So what is shown is an estimate of the last
// window's length up to now: all of the window that fills, and of the one before the share that still reaches
// into that length. Nothing jumps when one window follows another: at that moment both formulas give the
// same.
//
// "Now" is the newest event time that was counted, not a clock: a browser whose clock is wrong shows the same
// map.

import type { CellCount, HeatUpdate, Totals } from "./wire";

export interface HeatWindow {
  readonly start: number;
  readonly end: number;
  /** By row and column. Counts are absolute, so what comes later replaces what was there. */
  readonly cells: ReadonlyMap<string, CellCount>;
}

export interface HeatState {
  /** Oldest first. */
  readonly windows: readonly HeatWindow[];
  readonly newest: number | null;
  readonly totals: Totals | null;
}

export interface HeatCell {
  readonly row: number;
  readonly col: number;
  /** Positions per second. */
  readonly rate: number;
  readonly speed: number | null;
}

export const NO_HEAT: HeatState = { windows: [], newest: null, totals: null };

/** The one that fills, the one before, and one more for what comes late to that. */
const WINDOWS_MAX = 3;
/** Event time that goes back further than this is another run of the job on topics made anew. */
const BACK_MS_MAX = 60_000;
/** A first window without one before it says little until so much of it has passed. */
const FIRST_MS_MIN = 1_000;

export function keyOf(cell: { row: number; col: number }): string {
  return `${cell.row}.${cell.col}`;
}

export function applyUpdate(before: HeatState, update: HeatUpdate): HeatState {
  const begun = startsOver(before, update) ? NO_HEAT : before;
  const newest =
    update.newest === null ? begun.newest : Math.max(update.newest, begun.newest ?? update.newest);
  const windows = update.window ? withWindow(begun.windows, update.window, update.cells) : begun.windows;
  return { windows, newest, totals: update.totals ?? begun.totals };
}

function startsOver(before: HeatState, update: HeatUpdate): boolean {
  return before.newest !== null && update.newest !== null && update.newest < before.newest - BACK_MS_MAX;
}

function withWindow(
  windows: readonly HeatWindow[],
  { start, end }: { start: number; end: number },
  counts: readonly CellCount[],
): readonly HeatWindow[] {
  const known = windows.find((each) => each.start === start);
  const cells = new Map(known?.cells);
  for (const count of counts) cells.set(keyOf(count), count);
  const others = windows.filter((each) => each.start !== start);
  return [...others, { start, end, cells }].sort((one, other) => one.start - other.start).slice(-WINDOWS_MAX);
}

/** What each cell is like over the last window's length; cells without anybody are left out. */
export function blend(state: HeatState): HeatCell[] {
  const current = state.windows.at(-1);
  if (!current) return [];
  const before = state.windows.at(-2);
  const previous = before?.end === current.start ? before : undefined;
  const length = current.end - current.start;
  const passed = Math.min(Math.max((state.newest ?? current.end) - current.start, 0), length);
  const share = previous ? 1 - passed / length : 0;
  const seconds = (previous ? length : Math.min(length, Math.max(passed, FIRST_MS_MIN))) / 1000;
  const cells: HeatCell[] = [];
  for (const [key, cell] of current.cells) {
    const old = share > 0 ? previous?.cells.get(key) : undefined;
    add(cells, cell, cell.count, old, share, seconds);
  }
  if (previous && share > 0) {
    for (const [key, old] of previous.cells) {
      if (!current.cells.has(key)) add(cells, old, 0, old, share, seconds);
    }
  }
  return cells;
}

function add(
  cells: HeatCell[],
  cell: CellCount,
  count: number,
  old: CellCount | undefined,
  share: number,
  seconds: number,
): void {
  const oldCount = (old?.count ?? 0) * share;
  const positions = count + oldCount;
  if (positions <= 0) return;
  const known = (cell.speed !== null ? count : 0) + (old && old.speed !== null ? oldCount : 0);
  const sum = (cell.speed ?? 0) * count + (old?.speed ?? 0) * oldCount;
  cells.push({
    row: cell.row,
    col: cell.col,
    rate: positions / seconds,
    speed: known > 0 ? sum / known : null,
  });
}

/** Of all cells together. */
export function summarize(cells: readonly HeatCell[]): { rate: number; speed: number | null } {
  let rate = 0;
  let known = 0;
  let sum = 0;
  for (const cell of cells) {
    rate += cell.rate;
    if (cell.speed === null) continue;
    known += cell.rate;
    sum += cell.speed * cell.rate;
  }
  return { rate, speed: known > 0 ? sum / known : null };
}

/** The busiest first; ties in the order of the map, so that rows do not change places for nothing. */
export function busiest(cells: readonly HeatCell[], most: number): HeatCell[] {
  return [...cells]
    .sort((one, other) => other.rate - one.rate || other.row - one.row || one.col - other.col)
    .slice(0, most);
}
