import { expect, test } from "vitest";
import { failureIn } from "./feed";
import { NdjsonError, NdjsonParser } from "./ndjson";

const LINES = '{"a":1}\n{"b":"x\\ny"}\n\n{"c":[1,2]}\r\n';

test("lines are whole wherever the network cut them", () => {
  for (let size = 1; size <= LINES.length; size += 1) {
    const parser = new NdjsonParser();
    const found: unknown[] = [];
    for (let at = 0; at < LINES.length; at += size) found.push(...parser.push(LINES.slice(at, at + size)));
    expect(found).toEqual([{ a: 1 }, { b: "x\ny" }, { c: [1, 2] }]);
    expect(parser.isInLine).toBe(false);
  }
});

test("a line that broke off", () => {
  const parser = new NdjsonParser();
  expect(parser.push('{"a":1}\n{"b"')).toEqual([{ a: 1 }]);
  expect(parser.isInLine).toBe(true);
});

test("what is no JSON, and what has no end", () => {
  expect(() => new NdjsonParser().push("<html>\n")).toThrow(NdjsonError);
  expect(() => new NdjsonParser().push("x".repeat(2 * 1024 * 1024))).toThrow("no end");
});

test("a failure in the place of a row", () => {
  expect(failureIn({ status: "failure", message: "no airports" })).toBe("no airports");
  expect(failureIn({ error: "gone" })).toBe("gone");
  expect(failureIn({ legId: "1" })).toBeNull();
  expect(failureIn(null)).toBeNull();
});
