import { describe, expect, it } from "vitest";
import {
  FOLLOWED_MAX,
  Tail,
  eventsPath,
  newerStart,
  olderStart,
  pagePath,
  parseMessage,
  parseOffset,
  type MessagePage,
} from "./message_log";

const page = (some: Partial<MessagePage>, first?: number): MessagePage => ({
  topic: "t",
  partition: 0,
  start: 0,
  end: 500,
  next_offset: 500,
  ...some,
  messages:
    first === undefined
      ? []
      : [{ topic: "t", partition: 0, offset: first, timestamp: 0, key: null, value: "x" }],
});

describe("paths", () => {
  it("name the partition and where to begin", () => {
    expect(pagePath("a b", 3, "end")).toBe("/v1/topics/a%20b/messages?partition=3&offset=end&limit=50");
    expect(eventsPath("t", 1, 17)).toBe("/v1/topics/t/events?offset=17&partition=1");
    expect(eventsPath("t", null, "end")).toBe("/v1/topics/t/events?offset=end");
  });
});

describe("paging", () => {
  it("goes back to the beginning of the log and not further", () => {
    expect(olderStart(page({}, 450))).toBe(400);
    expect(olderStart(page({ start: 430 }, 450))).toBe(430);
    expect(olderStart(page({ start: 450 }, 450))).toBeNull();
    expect(olderStart(page({ start: 0, next_offset: 0, end: 0 }))).toBeNull();
  });

  it("goes on as long as there is more", () => {
    expect(newerStart(page({ next_offset: 50 }, 0))).toBe(50);
    expect(newerStart(page({ next_offset: 500 }, 450))).toBeNull();
  });

  it("goes back from a page whose messages were compacted away", () => {
    expect(olderStart(page({ start: 0, next_offset: 120, end: 120 }))).toBe(70);
  });
});

describe("parseOffset", () => {
  it("takes numbers only", () => {
    expect(parseOffset(" 42 ")).toBe(42);
    for (const text of ["", "-1", "1.5", "x", "1e3", "9".repeat(20)])
      expect(typeof parseOffset(text)).toBe("string");
  });
});

describe("Tail", () => {
  const text = (offset: number): string => JSON.stringify({ partition: 0, offset });

  it("keeps the last, newest first, and counts all", () => {
    const tail = new Tail(3);
    for (let offset = 0; offset < 10; offset++) tail.push(text(offset));
    expect(tail.latest().map((each) => each.offset)).toEqual([9, 8, 7]);
    expect(tail.seen).toBe(10);
  });

  it("is bounded between looks, too", () => {
    const tail = new Tail(FOLLOWED_MAX);
    for (let offset = 0; offset < 100_000; offset++) tail.push(text(offset));
    expect(tail.latest()).toHaveLength(FOLLOWED_MAX);
    expect(tail.latest()[0]?.offset).toBe(99_999);
  });

  it("leaves out what is not a message", () => {
    const tail = new Tail(3);
    tail.push("?");
    tail.push('{"status":"failure"}');
    tail.push(text(1));
    expect(tail.latest()).toHaveLength(1);
    expect(parseMessage("null")).toBeNull();
  });
});
