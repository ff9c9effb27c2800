import { describe, expect, test } from "vitest";
import { EventParser, type ServerEvent } from "../src/lib/event_parser";

const TEXT =
  "retry: 1000\n\n" +
  ": heartbeat\n\n" +
  'data: {"offset":1}\n\n' +
  "event: error\r\nid: 7\r\ndata: first\r\ndata:second\r\n\r\n" +
  "data\n\n" +
  "id: 8\ndata: ünïcödé 🚰\n\n";

const EVENTS: ServerEvent[] = [
  { name: "message", data: '{"offset":1}', id: "" },
  { name: "error", data: "first\nsecond", id: "7" },
  { name: "message", data: "", id: "7" },
  { name: "message", data: "ünïcödé 🚰", id: "8" },
];

function parse(chunks: string[]): { events: ServerEvent[]; parser: EventParser } {
  const parser = new EventParser();
  return { events: chunks.flatMap((chunk) => parser.push(chunk)), parser };
}

describe("the same events, however the text is cut", () => {
  test("whole", () => {
    const { events, parser } = parse([TEXT]);
    expect(events).toEqual(EVENTS);
    expect(parser.retryMs).toBe(1000);
    expect(parser.lastId).toBe("8");
  });

  test("byte by byte", () => {
    const decoder = new TextDecoder();
    const chunks = [...new TextEncoder().encode(TEXT)].map((byte) =>
      decoder.decode(Uint8Array.of(byte), { stream: true }),
    );
    expect(parse(chunks).events).toEqual(EVENTS);
  });

  test.each(Array.from({ length: TEXT.length }, (_, at) => at))("in two, at %i", (at) => {
    expect(parse([TEXT.slice(0, at), TEXT.slice(at)]).events).toEqual(EVENTS);
  });
});

test("what is not finished is not an event, and is gone after a break", () => {
  const parser = new EventParser();
  expect(parser.push("id: 3\ndata: a\n\ndata: half")).toEqual([{ name: "message", data: "a", id: "3" }]);
  parser.reset();
  expect(parser.push("data: b\n\n")).toEqual([{ name: "message", data: "b", id: "3" }]);
});

test("an event without data is none, but its name does not stick to the next", () => {
  const parser = new EventParser();
  expect(parser.push("event: odd\n\ndata: x\n\n")).toEqual([{ name: "message", data: "x", id: "" }]);
});

test("a retry that is not a number is ignored", () => {
  const parser = new EventParser();
  parser.push("retry: soon\n\n");
  expect(parser.retryMs).toBeNull();
});
