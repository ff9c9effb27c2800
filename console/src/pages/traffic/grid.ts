// The map's division into quadrants (one topic each) and finer heat cells, as `penstock.traffic.Grid` has it.
//
// Row 0 is the southernmost, column 0 the westernmost. A map whose west is larger than its east crosses the
// date line; longitudes then go on beyond 180, which MapLibre draws as one piece.

import { isCount, isNumber, isObject } from "./wire";

export interface Grid {
  readonly west: number;
  readonly south: number;
  /** At least `west`, also across the date line. */
  readonly east: number;
  readonly north: number;
  /** Of quadrants. */
  readonly rows: number;
  readonly cols: number;
  /** Heat cells along each side of a quadrant. */
  readonly cells: number;
}

export interface Quadrant {
  readonly row: number;
  readonly col: number;
  /** `r0.c1`, the end of its topic's name. */
  readonly name: string;
}

/** West, south, east, north. */
export type Box = readonly [number, number, number, number];
export type Ring = [number, number][];

const SIDES_MAX = 10_000;

/** Null for anything that is not a grid. */
export function parseGrid(told: unknown): Grid | null {
  if (!isObject(told)) return null;
  const box = parseBox(told.bbox);
  const { rows, cols, cells } = told;
  if (!box || !isSide(rows) || !isSide(cols) || !isSide(cells)) return null;
  return { ...box, rows, cols, cells };
}

function parseBox(told: unknown): Pick<Grid, "west" | "south" | "east" | "north"> | null {
  const [west, south, east, north] = Array.isArray(told)
    ? told
    : isObject(told)
      ? [told.west, told.south, told.east, told.north]
      : [];
  if (!isNumber(west) || !isNumber(south) || !isNumber(east) || !isNumber(north)) return null;
  if (south >= north || west === east) return null;
  return { west, south, east: west > east ? east + 360 : east, north };
}

function isSide(told: unknown): told is number {
  return isCount(told) && told > 0 && told <= SIDES_MAX;
}

export function topicOf(quadrant: Quadrant): string {
  return `traffic.${quadrant.name}`;
}

/** North first and from west to east: as one reads a map. */
export function quadrantsOf(grid: Grid): Quadrant[] {
  const quadrants: Quadrant[] = [];
  for (let row = grid.rows - 1; row >= 0; row--) {
    for (let col = 0; col < grid.cols; col++) quadrants.push({ row, col, name: `r${row}.c${col}` });
  }
  return quadrants;
}

/** A number for each cell of the grid; cells beyond it have none. */
export function cellId(grid: Grid, row: number, col: number): number | null {
  const cols = grid.cols * grid.cells;
  return row < grid.rows * grid.cells && col < cols ? row * cols + col : null;
}

/** Where `quadrantsOf` has the quadrant of a cell. */
export function quadrantIndex(grid: Grid, row: number, col: number): number {
  return (grid.rows - 1 - Math.floor(row / grid.cells)) * grid.cols + Math.floor(col / grid.cells);
}

export function quadrantBox(grid: Grid, quadrant: Quadrant): Box {
  return boxOf(grid, quadrant.row, quadrant.col, grid.rows, grid.cols);
}

export function cellBox(grid: Grid, row: number, col: number): Box {
  return boxOf(grid, row, col, grid.rows * grid.cells, grid.cols * grid.cells);
}

export function cellCenter(grid: Grid, row: number, col: number): [number, number] {
  const [west, south, east, north] = cellBox(grid, row, col);
  return [(west + east) / 2, (south + north) / 2];
}

function boxOf(grid: Grid, row: number, col: number, rows: number, cols: number): Box {
  const width = grid.east - grid.west;
  const height = grid.north - grid.south;
  return [
    grid.west + (width * col) / cols,
    grid.south + (height * row) / rows,
    grid.west + (width * (col + 1)) / cols,
    grid.south + (height * (row + 1)) / rows,
  ];
}

/** The cell at a place, by the rules of the server; null off the map. */
export function cellAt(grid: Grid, lon: number, lat: number): { row: number; col: number } | null {
  const rows = grid.rows * grid.cells;
  const cols = grid.cols * grid.cells;
  const east = lon < grid.west ? lon + 360 : lon;
  const row = Math.floor(((lat - grid.south) / (grid.north - grid.south)) * rows);
  const col = Math.floor(((east - grid.west) / (grid.east - grid.west)) * cols);
  if (!(lat >= grid.south && lat <= grid.north && east >= grid.west && east <= grid.east)) return null;
  return { row: Math.min(row, rows - 1), col: Math.min(col, cols - 1) };
}

/** A box as the closed ring of a polygon. */
export function ringOf([west, south, east, north]: Box): Ring {
  return [
    [west, south],
    [east, south],
    [east, north],
    [west, north],
    [west, south],
  ];
}

/** How wide a heat cell is on the screen, in pixels of MapLibre's zoom 0 (a world of 512). */
export function cellPixelsAtZoom0(grid: Grid): number {
  return (((grid.east - grid.west) / 360) * 512) / (grid.cols * grid.cells);
}
