// What is kept of the rows of a query, however many come: the first ones, and figures to draw. Pure.

import { Histogram } from "./scales";
import { RESULTS, type ResultRow } from "./results";
import type { QueryName } from "./wire";

/** That a table can show. */
export const KEPT_ROWS_MAX = 1_000;
/** Behind so many the rest is not read: it can be downloaded, and no chart changes much any more. */
export const READ_ROWS_MAX = 200_000;
const TOP_ROUTES = 12;
const MILES_NARROW = 10;
const MILES_TOP = 100_000;

export interface RouteFares {
  route: string;
  average: number;
  max: number;
}

export class Digest {
  readonly query: QueryName;
  readonly rows: ResultRow[];
  /** How many rows were read. */
  count: number;
  /** Number of stopovers -> flights that have so many. */
  readonly stopovers: Map<number, number>;
  readonly distances: Histogram;
  /** The dearest on average, those first. */
  routes: RouteFares[];

  constructor(query: QueryName, from?: Digest) {
    this.query = query;
    this.rows = [...(from?.rows ?? [])];
    this.count = from?.count ?? 0;
    this.stopovers = new Map(from?.stopovers);
    this.distances = from?.distances.copy() ?? new Histogram(MILES_NARROW, MILES_TOP);
    this.routes = from?.routes ?? [];
  }

  /** As it is now, whatever is added later. */
  copy(): Digest {
    return new Digest(this.query, this);
  }

  /** Of what is no row, nothing is kept; whether there is room for more. */
  add(told: unknown): boolean {
    const row = rowOf(this.query, told);
    if (row === null) return true;
    this.count += 1;
    if (this.rows.length < KEPT_ROWS_MAX) this.rows.push(row);
    if (this.query === "q1") this.#addStopovers(row["stopovers"]);
    if (this.query === "q2") this.distances.add(Number(row["totalTravelDistance"]));
    if (this.query === "q4") this.#addRoute(row);
    return this.count < READ_ROWS_MAX;
  }

  #addStopovers(told: unknown): void {
    const number = String(told ?? "") === "" ? 0 : String(told).split("||").length;
    this.stopovers.set(number, (this.stopovers.get(number) ?? 0) + 1);
  }

  #addRoute(row: ResultRow): void {
    const [average, max] = [Number(row["avgFare"]), Number(row["maxFare"])];
    const last = this.routes.at(-1);
    const isFull = this.routes.length >= TOP_ROUTES;
    if (!Number.isFinite(average) || !Number.isFinite(max)) return;
    if (isFull && last !== undefined && average <= last.average) return;
    const route = `${row["startingAirport"]} → ${row["destinationAirport"]}`;
    this.routes = [...this.routes, { route, average, max }]
      .sort((one, other) => other.average - one.average)
      .slice(0, TOP_ROUTES);
  }
}

function rowOf(query: QueryName, told: unknown): ResultRow | null {
  if (typeof told !== "object" || told === null) return null;
  const row = told as ResultRow;
  return RESULTS[query].columns.every(({ name }) => name in row) ? row : null;
}
