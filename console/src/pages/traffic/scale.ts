// How hot a cell is between 0 and 1, in a way that one very busy crossing does not pale all the others.
//
// A rate is compared with the 97th percentile of the cells, which follows the traffic slowly (quicker when it
// grows than when it ebbs away), so that the same rate has the same colour from one update to the next. Rates
// are very uneven over a city, so the comparison is made by a root: a cell with a third of the reference is
// half as hot.

const QUANTILE = 0.97;
const GROWING = 0.5;
const SHRINKING = 0.1;
const GAMMA = 0.65;

export function quantile(values: readonly number[], at: number): number {
  if (values.length === 0) return 0;
  const sorted = Float64Array.from(values).sort();
  const place = at * (sorted.length - 1);
  const below = Math.floor(place);
  const low = sorted[below] ?? 0;
  const high = sorted[Math.min(below + 1, sorted.length - 1)] ?? low;
  return low + (high - low) * (place - below);
}

/** The rate that is shown as hot: null when there was nothing yet to compare with. */
export function follow(reference: number | null, rates: readonly number[]): number | null {
  const measured = quantile(rates, QUANTILE);
  if (measured <= 0) return reference;
  if (reference === null) return measured;
  return reference + (measured - reference) * (measured > reference ? GROWING : SHRINKING);
}

export function heatOf(rate: number, reference: number | null): number {
  if (reference === null || reference <= 0 || rate <= 0) return 0;
  return Math.min(1, (rate / reference) ** GAMMA);
}

/** The other way round, for the legend. */
export function rateOf(heat: number, reference: number): number {
  return reference * heat ** (1 / GAMMA);
}
