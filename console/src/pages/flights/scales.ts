// Numbers on paper: round steps, places of values, values in bins. Pure.

const STEPS = [1, 2, 5, 10];

/** The smallest of 1, 2, 5, 10, 20, 50 … that is not below `value`. */
export function roundStep(value: number): number {
  if (!(value > 0) || !Number.isFinite(value)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const step = STEPS.find((each) => each * power >= value * (1 - 1e-9)) ?? 10;
  return step * power;
}

/** From 0 to `max` or a little more, in at most `count` round steps. */
export function ticks(max: number, count: number, least = 0): number[] {
  if (!(max > 0) || !Number.isFinite(max)) return [0];
  const step = Math.max(least, roundStep(max / count));
  const found: number[] = [];
  for (let index = 0; found.length === 0 || (found.at(-1) ?? 0) < max * (1 - 1e-9); index += 1)
    found.push(index * step);
  return found;
}

/** Where values from 0 to `max` are on a line of that length. */
export function linear(max: number, length: number): (value: number) => number {
  return (value) => (max > 0 ? Math.round((Math.min(Math.max(value, 0), max) / max) * length * 10) / 10 : 0);
}

export interface Band {
  start: number;
  width: number;
}

/** Places of `count` bars on a line, with a share of each for the gap; none is wider than `most`. */
export function bands(count: number, length: number, gap = 0.25, most = Infinity): Band[] {
  const step = length / Math.max(1, count);
  const width = Math.min(most, step * (1 - gap));
  return Array.from({ length: count }, (_, index) => ({
    start: Math.round(((index + 0.5) * step - width / 2) * 10) / 10,
    width: Math.round(width * 10) / 10,
  }));
}

export interface Bin {
  from: number;
  to: number;
  count: number;
}

/** Counts values of any number in little room: in narrow bins, of which wider ones are made when drawn. */
export class Histogram {
  readonly #narrow: number;
  readonly #top: number;
  readonly #counts = new Map<number, number>();
  count = 0;
  /** Those that are not below `top`; they are in no bin. */
  above = 0;

  constructor(narrow: number, top: number) {
    this.#narrow = narrow;
    this.#top = top;
  }

  add(value: number): void {
    if (!Number.isFinite(value) || value < 0) return;
    this.count += 1;
    if (value >= this.#top) {
      this.above += 1;
      return;
    }
    const bin = Math.floor(value / this.#narrow);
    this.#counts.set(bin, (this.#counts.get(bin) ?? 0) + 1);
  }

  copy(): Histogram {
    const copy = new Histogram(this.#narrow, this.#top);
    copy.count = this.count;
    copy.above = this.above;
    for (const [bin, count] of this.#counts) copy.#counts.set(bin, count);
    return copy;
  }

  /** At most `most` bins of the same round width, from the first to the last that have something. */
  bins(most: number): Bin[] {
    const found = [...this.#counts.keys()];
    if (found.length === 0) return [];
    const low = Math.min(...found) * this.#narrow;
    const high = (Math.max(...found) + 1) * this.#narrow;
    let width = Math.max(this.#narrow, roundStep((high - low) / most));
    // Bins begin at multiples of their width, which may take one more than there is room for.
    while (Math.ceil(high / width) - Math.floor(low / width) > most) width = roundStep(width * 1.01);
    const first = Math.floor(low / width);
    const bins = Array.from({ length: Math.ceil(high / width) - first }, (_, index) => ({
      from: (first + index) * width,
      to: (first + index + 1) * width,
      count: 0,
    }));
    for (const [bin, count] of this.#counts) {
      const into = bins[Math.floor((bin * this.#narrow) / width + 1e-9) - first];
      if (into !== undefined) into.count += count;
    }
    return bins;
  }
}
