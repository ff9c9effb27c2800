// How fast messages arrive, from how far high watermarks moved between two answers. Pure.
//
// A history has one sample for each second. What is told is not always new: while nothing at all has moved, the
// answer may be an old one, and for a short while it says nothing. The very first answer may be old, too, so the
// first move only tells when to begin. A partition without a leader has no known
// high watermark; when it is known again, what came meanwhile is spread over the time that nobody knew, so that
// an election does not look like a burst.

import type { Topic } from "./types";

const SECONDS_KEPT = 90;
const OLD_ANSWER_MS_MAX = 3_000;
const SMOOTHED_OVER_S = 3;

interface Mark {
  offset: number;
  at: number;
}

type Marks = ReadonlyMap<string, Mark>;
type Samples = ReadonlyMap<string, readonly number[]>;

export class RateHistory {
  readonly #marks: Marks;
  readonly #samples: Samples;
  readonly #at: number | null;
  readonly #hasBegun: boolean;

  constructor(
    marks: Marks = new Map(),
    samples: Samples = new Map(),
    at: number | null = null,
    hasBegun = false,
  ) {
    this.#marks = marks;
    this.#samples = samples;
    this.#at = at;
    this.#hasBegun = hasBegun;
  }

  /** The history with one more answer, which came at `at` ms. */
  after(topics: readonly Topic[], at: number): RateHistory {
    if (this.#at === null) return new RateHistory(this.#marksIn(topics, at), new Map(), at);
    const hasMoved = this.#hasMoved(topics);
    if (at - this.#at < OLD_ANSWER_MS_MAX && !hasMoved) return this;
    if (hasMoved && !this.#hasBegun) return new RateHistory(this.#marksIn(topics, at), new Map(), at, true);
    const seconds = Math.round((at - this.#at) / 1000);
    if (seconds < 1) return this;
    const samples = new Map(topics.map((topic) => [topic.name, this.#extended(topic, at, seconds)]));
    return new RateHistory(this.#marksIn(topics, at), samples, at, true);
  }

  /** Messages per second of a topic, oldest first, without the jitter of single answers. */
  samples(topic: string): number[] {
    return smoothed(this.#samples.get(topic) ?? []);
  }

  /** Now; null before there is a sample. */
  latest(topic: string): number | null {
    return smoothed(this.#samples.get(topic)?.slice(-SMOOTHED_OVER_S) ?? []).at(-1) ?? null;
  }

  /** Of several topics together. */
  total(topics: readonly string[]): number[] {
    const each = topics.map((topic) => this.#samples.get(topic) ?? []);
    const length = each.reduce((most, samples) => Math.max(most, samples.length), 0);
    const sums = Array<number>(length).fill(0);
    for (const samples of each) {
      // They end at the same second, but a new topic's begin later.
      const missing = length - samples.length;
      samples.forEach((sample, index) => (sums[missing + index] = (sums[missing + index] ?? 0) + sample));
    }
    return smoothed(sums);
  }

  latestTotal(topics: readonly string[]): number | null {
    return this.total(topics).at(-1) ?? null;
  }

  #marksIn(topics: readonly Topic[], at: number): Marks {
    const marks = new Map<string, Mark>();
    for (const [key, offset] of highWatermarks(topics)) {
      const mark = offset === null ? this.#marks.get(key) : { offset, at };
      if (mark !== undefined) marks.set(key, mark);
    }
    return marks;
  }

  #hasMoved(topics: readonly Topic[]): boolean {
    return highWatermarks(topics).some(
      ([key, offset]) => offset !== null && this.#marks.get(key)?.offset !== offset,
    );
  }

  #extended(topic: Topic, at: number, seconds: number): readonly number[] {
    const perSecond = this.#rateOf(topic, at);
    const before = this.#samples.get(topic.name) ?? [];
    if (perSecond === null) return before;
    return [...before, ...Array<number>(Math.min(seconds, SECONDS_KEPT)).fill(perSecond)].slice(
      -SECONDS_KEPT,
    );
  }

  #rateOf(topic: Topic, at: number): number | null {
    let perSecond: number | null = null;
    for (const [key, offset] of highWatermarks([topic])) {
      const mark = this.#marks.get(key);
      if (offset === null || mark === undefined) continue;
      // A topic that was deleted and made anew begins at 0 again.
      const moved = Math.max(0, offset - mark.offset);
      perSecond = (perSecond ?? 0) + (moved * 1000) / (at - mark.at);
    }
    return perSecond;
  }
}

function highWatermarks(topics: readonly Topic[]): [string, number | null][] {
  return topics.flatMap((topic) =>
    topic.partitions.map((each): [string, number | null] => [
      `${topic.name}/${each.partition}`,
      each.high_watermark,
    ]),
  );
}

function smoothed(values: readonly number[]): number[] {
  return values.map((_, index) => {
    const near = values.slice(Math.max(0, index - SMOOTHED_OVER_S + 1), index + 1);
    return near.reduce((sum, value) => sum + value, 0) / near.length;
  });
}
