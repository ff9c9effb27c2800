// How busy each quadrant is, and which have gone dark.
//
// A quadrant is dark when nothing new was counted in it for a while although time goes on elsewhere: cars'
// event time moves, and none of it comes from there. When everything stands still no quadrant is dark; then
// the whole map is stale, which is another message.

import { quadrantIndex, quadrantsOf, type Grid, type Quadrant } from "./grid";
import type { HeatCell, HeatState } from "./heat";

export interface QuadrantActivity {
  readonly quadrant: Quadrant;
  /** Positions per second. */
  readonly rate: number;
  readonly speed: number | null;
  readonly dark: boolean;
  /** Event time when something was counted in it last; null if never since we look. */
  readonly lastAt: number | null;
  /** Rates of the last updates, oldest first. */
  readonly history: readonly number[];
}

interface Track {
  readonly lastAt: number | null;
  /** Start of a window it was counted in that time has not reached: cells may come before the totals of their batch. */
  readonly ahead: number | null;
  readonly history: readonly number[];
  /** What was counted in it per window, so that growth is seen. */
  readonly counts: ReadonlyMap<number, number>;
}

export interface QuadrantState {
  /** Event time when we began to look. */
  readonly since: number | null;
  readonly tracks: readonly Track[];
  readonly activity: readonly QuadrantActivity[];
}

export const DARK_AFTER_MS = 4_000;
export const HISTORY_MAX = 60;

export const NO_QUADRANTS: QuadrantState = { since: null, tracks: [], activity: [] };

const NO_TRACK: Track = { lastAt: null, ahead: null, history: [], counts: new Map() };

export function observe(
  before: QuadrantState,
  grid: Grid,
  state: HeatState,
  cells: readonly HeatCell[],
): QuadrantState {
  const quadrants = quadrantsOf(grid);
  const newest = state.newest;
  const since = before.since === null || (newest !== null && newest < before.since) ? newest : before.since;
  const counts = countsPerWindow(grid, state, quadrants.length);
  const rates = ratesOf(grid, cells, quadrants.length);
  const tracks = quadrants.map((_, index) => {
    const track = before.tracks[index] ?? NO_TRACK;
    return nextTrack(track, counts[index] ?? new Map(), newest, rates[index]?.rate ?? 0);
  });
  const activity = quadrants.map((quadrant, index): QuadrantActivity => {
    const track = tracks[index] ?? NO_TRACK;
    const { rate, speed } = rates[index] ?? { rate: 0, speed: null };
    return {
      quadrant,
      rate,
      speed,
      dark: isDark(track, since, newest),
      lastAt: track.lastAt,
      history: track.history,
    };
  });
  return { since, tracks, activity };
}

function isDark(track: Track, since: number | null, newest: number | null): boolean {
  if (newest === null || since === null) return false;
  return newest - (track.lastAt ?? since) >= DARK_AFTER_MS;
}

function nextTrack(
  before: Track,
  counts: ReadonlyMap<number, number>,
  newest: number | null,
  rate: number,
): Track {
  const grown = [...counts].filter(([start, count]) => count > (before.counts.get(start) ?? 0));
  const ahead = Math.max(before.ahead ?? -Infinity, ...grown.map(([start]) => start));
  const reached = ahead <= (newest ?? -Infinity);
  return {
    lastAt: grown.length > 0 || (before.ahead !== null && reached) ? newest : before.lastAt,
    ahead: reached || ahead === -Infinity ? null : ahead,
    history: [...before.history, rate].slice(-HISTORY_MAX),
    counts,
  };
}

function countsPerWindow(grid: Grid, state: HeatState, length: number): Map<number, number>[] {
  const counts = Array.from({ length }, () => new Map<number, number>());
  for (const window of state.windows) {
    for (const cell of window.cells.values()) {
      const found = counts[quadrantIndex(grid, cell.row, cell.col)];
      if (cell.count > 0) found?.set(window.start, (found.get(window.start) ?? 0) + cell.count);
    }
  }
  return counts;
}

function ratesOf(
  grid: Grid,
  cells: readonly HeatCell[],
  length: number,
): { rate: number; speed: number | null }[] {
  const sums = Array.from({ length }, () => ({ rate: 0, known: 0, speed: 0 }));
  for (const cell of cells) {
    const sum = sums[quadrantIndex(grid, cell.row, cell.col)];
    if (!sum) continue;
    sum.rate += cell.rate;
    if (cell.speed === null) continue;
    sum.known += cell.rate;
    sum.speed += cell.speed * cell.rate;
  }
  return sums.map(({ rate, known, speed }) => ({ rate, speed: known > 0 ? speed / known : null }));
}
