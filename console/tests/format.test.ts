import { describe, expect, test } from "vitest";
import { ago, bytes, compact, count, duration, plural, rate, words } from "../src/lib/format";

test("numbers", () => {
  expect(count(1234567)).toBe("1,234,567");
  expect(count(null)).toBe("–");
  expect(compact(12_345)).toBe("12.3K");
  expect(compact(undefined)).toBe("–");
  expect(plural(1, "partition")).toBe("1 partition");
  expect(plural(2000, "partition")).toBe("2,000 partitions");
  expect(words("isr_shrunk")).toBe("isr shrunk");
});

test.each([
  [0, "0 B"],
  [1023, "1023 B"],
  [1536, "1.5 KiB"],
  [150 * 1024, "150 KiB"],
  [3 * 1024 ** 3, "3.0 GiB"],
  [2 ** 60, "1048576 TiB"],
])("%d bytes", (value, text) => {
  expect(bytes(value)).toBe(text);
});

describe("rate", () => {
  test.each([
    [null, "–"],
    [0, "0/s"],
    [0.25, "0.3/s"],
    [9.96, "10.0/s"],
    [1234.4, "1,234/s"],
    [20_500, "20.5K/s"],
  ])("%j", (value, text) => {
    expect(rate(value)).toBe(text);
  });
});

describe("times", () => {
  test.each([
    [-5, "0 s"],
    [59, "59 s"],
    [60, "1 min"],
    [3599, "59 min"],
    [7200, "2 h"],
    [200_000, "2 d"],
  ])("%j s", (seconds, text) => {
    expect(duration(seconds)).toBe(text);
  });

  test("a clock that is behind does not count backwards", () => {
    expect(ago(10_000, 5_000)).toBe("now");
    expect(ago(10_000, 22_000)).toBe("12 s ago");
  });
});
