// Cells on the map: points that stay, with a state each that changes.
//
// The points are given to MapLibre once; an update then only writes new states of the cells that changed,
// which is drawn with the next picture. Given anew each time, all points would be cut into tiles by
// MapLibre's worker first, and on a busy machine that takes longer than everything else. Both layers, heat
// and speed, read the same states. Pure.

import { cellCenter, cellId, type Grid } from "./grid";
import type { HeatCell } from "./heat";
import { heatOf } from "./scale";

export interface CellState {
  readonly heat: number;
  /** Of its circle, in cells. */
  readonly size: number;
  readonly speed: number;
  /** Whether there is a speed to show. */
  readonly moves: boolean;
}

export interface CellChanges {
  /** All points, when there are new ones; null as long as there are not. */
  readonly points: GeoJSON.FeatureCollection | null;
  readonly states: readonly (readonly [number, CellState])[];
}

export const COLD: CellState = { heat: 0, size: 0, speed: 0, moves: false };

/** The points of a map with more cells than this are added when they are first needed. */
const PREPARED_MAX = 20_000;
/** Radius of the largest circle, in cells; the smallest can still be seen. */
const SIZE_MAX = 0.56;
const SIZE_MIN = 0.16;

export class CellStates {
  readonly #grid: Grid;
  readonly #points = new Map<number, GeoJSON.Feature>();
  #shown = new Map<number, CellState>();

  constructor(grid: Grid) {
    this.#grid = grid;
    const [rows, cols] = [grid.rows * grid.cells, grid.cols * grid.cells];
    if (rows * cols > PREPARED_MAX) return;
    for (let row = 0; row < rows; row++) for (let col = 0; col < cols; col++) this.#add(row, col);
  }

  get points(): GeoJSON.FeatureCollection {
    return { type: "FeatureCollection", features: [...this.#points.values()] };
  }

  /** What has to change so that these cells are shown and no others. */
  changes(cells: readonly HeatCell[], reference: number | null): CellChanges {
    const shown = new Map<number, CellState>();
    const states: [number, CellState][] = [];
    const known = this.#points.size;
    for (const cell of cells) {
      const id = this.#add(cell.row, cell.col);
      if (id === null) continue; // of another map than the one we were told
      const state = stateOf(cell, reference);
      shown.set(id, state);
      if (!isSame(this.#shown.get(id), state)) states.push([id, state]);
    }
    for (const id of this.#shown.keys()) if (!shown.has(id)) states.push([id, COLD]);
    this.#shown = shown;
    return { points: this.#points.size > known ? this.points : null, states };
  }

  #add(row: number, col: number): number | null {
    const id = cellId(this.#grid, row, col);
    if (id !== null && !this.#points.has(id)) {
      const geometry: GeoJSON.Point = { type: "Point", coordinates: cellCenter(this.#grid, row, col) };
      this.#points.set(id, { type: "Feature", id, properties: {}, geometry });
    }
    return id;
  }
}

function stateOf(cell: HeatCell, reference: number | null): CellState {
  const heat = round(heatOf(cell.rate, reference), 200);
  const size = round(SIZE_MIN + (SIZE_MAX - SIZE_MIN) * heat, 200);
  return { heat, size, speed: round(cell.speed ?? 0, 2), moves: cell.speed !== null };
}

/** Differences that nobody can see are not worth a change. */
function round(value: number, steps: number): number {
  return Math.round(value * steps) / steps;
}

function isSame(one: CellState | undefined, other: CellState): boolean {
  return (
    one !== undefined && one.heat === other.heat && one.speed === other.speed && one.moves === other.moves
  );
}
