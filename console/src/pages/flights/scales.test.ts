import { describe, expect, test } from "vitest";
import { Histogram, bands, linear, roundStep, ticks } from "./scales";

test.each([
  [0, 1],
  [Number.NaN, 1],
  [1, 1],
  [1.1, 2],
  [3, 5],
  [6, 10],
  [10, 10],
  [1234, 2000],
  [0.03, 0.05],
])("a round step for %d", (value, step) => {
  expect(roundStep(value)).toBeCloseTo(step);
});

test.each([
  [0, 4, 0, [0]],
  [7, 4, 0, [0, 2, 4, 6, 8]],
  [100, 4, 0, [0, 50, 100]],
  [3, 4, 1, [0, 1, 2, 3]],
  [2, 4, 1, [0, 1, 2]],
])("marks up to %d", (max, most, least, marks) => {
  expect(ticks(max, most, least)).toEqual(marks);
});

test("places of values", () => {
  const place = linear(200, 50);
  expect([0, 100, 200, 400, -1].map(place)).toEqual([0, 25, 50, 50, 0]);
  expect(linear(0, 50)(1)).toBe(0);
});

test("bars beside each other", () => {
  expect(bands(2, 100, 0.2)).toEqual([
    { start: 5, width: 40 },
    { start: 55, width: 40 },
  ]);
  expect(bands(2, 100, 0.2, 10)).toEqual([
    { start: 20, width: 10 },
    { start: 70, width: 10 },
  ]);
  expect(bands(0, 100)).toEqual([]);
});

describe("a histogram", () => {
  function filled(...values: number[]): Histogram {
    const histogram = new Histogram(10, 1_000);
    values.forEach((value) => histogram.add(value));
    return histogram;
  }

  test("of nothing", () => {
    expect(filled().bins(5)).toEqual([]);
  });

  test("of one value", () => {
    expect(filled(42).bins(5)).toEqual([{ from: 40, to: 50, count: 1 }]);
  });

  test("with round bins, empty ones too", () => {
    expect(filled(100, 119, 120, 185).bins(5)).toEqual([
      { from: 100, to: 120, count: 2 },
      { from: 120, to: 140, count: 1 },
      { from: 140, to: 160, count: 0 },
      { from: 160, to: 180, count: 0 },
      { from: 180, to: 200, count: 1 },
    ]);
  });

  test("has never more bins than wanted, and loses nothing", () => {
    const values = Array.from({ length: 500 }, (_, i) => (i * i * 31) % 1_000);
    for (let most = 2; most < 30; most += 1) {
      const bins = filled(...values).bins(most);
      expect(bins.length).toBeLessThanOrEqual(most);
      expect(bins.reduce((sum, bin) => sum + bin.count, 0)).toBe(500);
      for (const bin of bins)
        expect(bin.count).toBe(values.filter((value) => value >= bin.from && value < bin.to).length);
    }
  });

  test("knows what is far away, and what is no number", () => {
    const histogram = filled(5, 1e300, 1_000, Number.NaN, -3);
    expect(histogram.count).toBe(3);
    expect(histogram.above).toBe(2);
    expect(histogram.bins(5)).toHaveLength(1);
  });
});
