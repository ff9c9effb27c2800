// What the gateway says about traffic, checked before anything else sees it.
//
// Times are epoch milliseconds of the server's world: event times of cars, never this browser's clock.

export interface CellCount {
  readonly row: number;
  readonly col: number;
  readonly count: number;
  /** Mean km/h; null where nobody was counted. */
  readonly speed: number | null;
}

export interface Totals {
  readonly sent: number;
  readonly counted: number;
  readonly late: number;
  readonly duplicate: number;
  readonly malformed: number;
  /** Of the malformed ones. */
  readonly reasons: Readonly<Record<string, number>>;
}

/** One event of the stream, or the answer to a snapshot. */
export interface HeatUpdate {
  readonly window: { readonly start: number; readonly end: number } | null;
  readonly cells: readonly CellCount[];
  readonly newest: number | null;
  readonly totals: Totals | null;
}

export interface Street {
  readonly kind: string;
  readonly name: string;
  readonly path: readonly (readonly [number, number])[];
}

type Fields = Record<string, unknown>;

/** Null for something that is no update at all; single cells that make no sense are left out. */
export function parseUpdate(told: unknown): HeatUpdate | null {
  if (!isObject(told) || !Array.isArray(told.cells)) return null;
  return {
    window: parseWindow(told.window),
    cells: told.cells.map(parseCell).filter((cell) => cell !== null),
    newest: numberOrNull(told.newest),
    totals: parseTotals(told.totals),
  };
}

function parseWindow(told: unknown): HeatUpdate["window"] {
  if (!isObject(told)) return null;
  const { start, end } = told;
  return isNumber(start) && isNumber(end) && start < end ? { start, end } : null;
}

function parseCell(told: unknown): CellCount | null {
  if (!isObject(told)) return null;
  const { row, col, count } = told;
  if (!isCount(row) || !isCount(col) || !isCount(count)) return null;
  return { row, col, count, speed: numberOrNull(told.speed) };
}

function parseTotals(told: unknown): Totals | null {
  if (!isObject(told)) return null;
  const reasons: Record<string, number> = {};
  for (const [reason, count] of Object.entries(isObject(told.reasons) ? told.reasons : {})) {
    if (isCount(count)) reasons[reason] = count;
  }
  return {
    sent: countOrZero(told.sent),
    counted: countOrZero(told.counted),
    late: countOrZero(told.late),
    duplicate: countOrZero(told.duplicate),
    malformed: countOrZero(told.malformed),
    reasons,
  };
}

/** The lines of a GeoJSON feature collection; what is not a line of at least two places is left out. */
export function parseStreets(told: unknown): Street[] {
  if (!isObject(told) || !Array.isArray(told.features)) return [];
  const streets: Street[] = [];
  for (const feature of told.features) {
    if (!isObject(feature) || !isObject(feature.geometry)) continue;
    const { type, coordinates } = feature.geometry;
    if (type !== "LineString" || !Array.isArray(coordinates)) continue;
    const path = coordinates.filter(isPlace).map(([lon, lat]): [number, number] => [lon, lat]);
    const properties = isObject(feature.properties) ? feature.properties : {};
    if (path.length >= 2)
      streets.push({ kind: text(properties.kind, "street"), name: text(properties.name, ""), path });
  }
  return streets;
}

function isPlace(told: unknown): told is [number, number] {
  return Array.isArray(told) && isNumber(told[0]) && isNumber(told[1]);
}

export function isObject(told: unknown): told is Fields {
  return typeof told === "object" && told !== null && !Array.isArray(told);
}

export function isNumber(told: unknown): told is number {
  return typeof told === "number" && Number.isFinite(told);
}

export function isCount(told: unknown): told is number {
  return isNumber(told) && Number.isInteger(told) && told >= 0;
}

function numberOrNull(told: unknown): number | null {
  return isNumber(told) ? told : null;
}

function countOrZero(told: unknown): number {
  return isCount(told) ? told : 0;
}

function text(told: unknown, otherwise: string): string {
  return typeof told === "string" ? told : otherwise;
}
