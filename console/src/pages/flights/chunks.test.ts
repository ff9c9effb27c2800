import { describe, expect, test } from "vitest";
import { ChunkError, Cutter, sourceOf, type Source } from "./chunks";

function sourceOfText(text: string): Source & { reads: number } {
  const bytes = new TextEncoder().encode(text);
  const source = {
    size: bytes.length,
    reads: 0,
    read: (start: number, end: number) => {
      source.reads += end - start;
      return Promise.resolve(bytes.slice(start, end));
    },
  };
  return source;
}

async function cut(text: string, chunkBytes: number): Promise<string[]> {
  const cutter = new Cutter(sourceOfText(text), chunkBytes);
  const chunks: string[] = [];
  for (let message = 0; ; message += 1) {
    const chunk = await cutter.chunk(message);
    if (chunk === null) return chunks;
    chunks.push(new TextDecoder().decode(chunk));
  }
}

// The same as penstock.flights.chunks.cut gives.
test.each([
  ["nothing", "", 8, []],
  ["one line", "ab\n", 8, ["ab\n"]],
  ["a last line without a line feed", "ab\ncd", 8, ["ab\ncd\n"]],
  ["as many lines as fit", "ab\ncd\nef\ngh\n", 8, ["ab\ncd\n", "ef\ngh\n"]],
  ["a chunk that is just full", "abc\ndef\nghi\n", 8, ["abc\ndef\n", "ghi\n"]],
  ["a full chunk whose last line has no line feed", "abc\ndefg", 8, ["abc\n", "defg\n"]],
  ["no room for the line feed", "abcdefg", 8, ["abcdefg\n"]],
  ["empty lines", "\n\n\n\n\n\n\n\n\n\n", 4, ["\n\n\n\n", "\n\n\n\n", "\n\n"]],
  ["carriage returns", "a\r\nb\r\nc\r\n", 7, ["a\r\nb\r\n", "c\r\n"]],
  ["letters of several bytes", "ää\nöö\n", 6, ["ää\n", "öö\n"]],
])("%s", async (_, text, chunkBytes, chunks) => {
  expect(await cut(text, chunkBytes)).toEqual(chunks);
});

test("all chunks together are the file, and none could be longer", async () => {
  const lines = Array.from({ length: 4_000 }, (_, i) => `${i},${"x".repeat((i * 7919) % 211)}\n`);
  const chunks = await cut(lines.join(""), 1_000);
  expect(chunks.join("")).toBe(lines.join(""));
  chunks.forEach((chunk, i) => {
    expect(chunk.length).toBeLessThanOrEqual(1_000);
    const following = (chunks[i + 1] ?? "").split("\n")[0] ?? "";
    if (i + 1 < chunks.length) expect(chunk.length + following.length + 1).toBeGreaterThan(1_000);
  });
});

describe("a line that is too long", () => {
  test.each([
    ["within", "ab\nabcdefghi\ncd\n", "byte 3"],
    ["at the end, as long as a chunk", "abcdefgh", "byte 0"],
  ])("%s", async (_, text, where) => {
    await expect(cut(text, 8)).rejects.toThrow(ChunkError);
    await expect(cut(text, 8)).rejects.toThrow(where);
  });
});

test("any chunk, in any order, and places of chunks", async () => {
  const cutter = new Cutter(sourceOfText("ab\ncd\nef\ngh\nij"), 6);
  expect(await cutter.startOf(2)).toBe(12);
  expect(new TextDecoder().decode((await cutter.chunk(2)) ?? undefined)).toBe("ij\n");
  expect(new TextDecoder().decode((await cutter.chunk(0)) ?? undefined)).toBe("ab\ncd\n");
  expect(await cutter.startOf(3)).toBe(14);
  expect(await cutter.startOf(4)).toBeNull();
  expect(await cutter.chunk(3)).toBeNull();
});

test("going on late does not read what was sent", async () => {
  const source = sourceOfText("0123456789\n".repeat(100_000));
  const cutter = new Cutter(source, 100_000);
  await cutter.startOf(10);
  expect(source.reads).toBeLessThan(source.size / 10);
});

test("a file of the browser", async () => {
  const cutter = new Cutter(sourceOf(new Blob(["ab\ncd"])), 4);
  expect(new TextDecoder().decode((await cutter.chunk(1)) ?? undefined)).toBe("cd\n");
});
