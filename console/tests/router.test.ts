import { describe, expect, test } from "vitest";
import { href, parseHash } from "../src/lib/router";

describe("parseHash", () => {
  test.each([
    ["", []],
    ["#", []],
    ["#/", []],
    ["#/topics", ["topics"]],
    ["#topics", ["topics"]],
    ["#/topics/a%20b", ["topics", "a b"]],
    ["#/topics/a%2Fb", ["topics", "a/b"]],
    ["#/topics//x/", ["topics", "x"]],
    ["#/topics/x?partition=1", ["topics", "x"]],
    ["#/topics/100%", ["topics", "100%"]],
  ])("%j", (hash, path) => {
    expect(parseHash(hash)).toEqual(path);
  });

  test.each(["plain", "with space", "a/b", "100%", "ü?#&", ".."])("finds what href wrote: %j", (name) => {
    expect(parseHash(href("topics", name))).toEqual(["topics", name]);
  });
});
