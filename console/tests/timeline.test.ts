import { describe, expect, test } from "vitest";
import { parseEvent } from "../src/lib/cluster_events";
import { KEPT_MAX, categoryOf, entriesOf, merge } from "../src/lib/timeline";
import type { ClusterEvent } from "../src/lib/types";

function event(fields: Partial<ClusterEvent>): ClusterEvent {
  return {
    source: "cluster",
    offset: 0,
    timestamp_ms: 0,
    kind: "broker_fenced",
    text: "broker 1 is fenced",
    nodes: [1],
    ...fields,
  };
}

function elected(partition: number, fields: Partial<ClusterEvent> = {}): ClusterEvent {
  return event({
    offset: partition,
    kind: "leader_elected",
    text: `orders-${partition}: 2 leads`,
    topic: "orders",
    partition,
    cause: "broker 1 was fenced",
    nodes: [2, 1],
    ...fields,
  });
}

describe("merge", () => {
  test("a stream that begins anew adds nothing, and keeps the very list", () => {
    const known = merge([], [event({ offset: 1 }), event({ offset: 2 })]);
    expect(merge(known, [event({ offset: 2 }), event({ offset: 1 })])).toBe(known);
  });

  test("events of one offset are different events, and so are those of another source", () => {
    const all = [event({ text: "a" }), event({ text: "b" }), event({ text: "a", source: "supervisor" })];
    expect(merge([], [...all, ...all])).toHaveLength(3);
  });

  test("by time, whatever came first; equal times in the order that they came", () => {
    const merged = merge(
      [event({ offset: 5, timestamp_ms: 50 })],
      [event({ offset: 9, timestamp_ms: 10 }), event({ offset: 6, timestamp_ms: 50 })],
    );
    expect(merged.map((each) => each.offset)).toEqual([9, 5, 6]);
  });

  test("the oldest are forgotten", () => {
    const many = Array.from({ length: KEPT_MAX + 10 }, (_, offset) =>
      event({ offset, timestamp_ms: offset }),
    );
    const merged = merge([], many);
    expect(merged).toHaveLength(KEPT_MAX);
    expect(merged[0]?.offset).toBe(10);
  });
});

describe("entriesOf", () => {
  test("newest first, with what they are", () => {
    const entries = entriesOf([
      event({ offset: 1, timestamp_ms: 1 }),
      event({ offset: 2, timestamp_ms: 2, kind: "node_ready", text: "node 1 serves" }),
    ]);
    expect(entries.map((entry) => [entry.kind, entry.category, entry.tone])).toEqual([
      ["node_ready", "process", "good"],
      ["broker_fenced", "process", "bad"],
    ]);
  });

  test("an election of many partitions is one line", () => {
    const [entry, ...others] = entriesOf([elected(0), elected(1), elected(2)]);
    expect(others).toEqual([]);
    expect(entry?.text).toBe("3 partitions of orders: broker 2 leads now");
    expect(entry?.events).toHaveLength(3);
  });

  test("also with other events between them, and over several topics", () => {
    const entries = entriesOf([elected(0), event({ offset: 7 }), elected(1, { topic: "payments" })]);
    expect(entries.map((entry) => entry.text)).toEqual([
      "broker 1 is fenced",
      "2 partitions of 2 topics: broker 2 leads now",
    ]);
  });

  test("but not what happens later, for another reason, or to others", () => {
    expect(entriesOf([elected(0), elected(1, { timestamp_ms: 60_000 })])).toHaveLength(2);
    expect(entriesOf([elected(0), elected(1, { cause: "asked for" })])).toHaveLength(2);
    expect(entriesOf([elected(0), elected(1, { nodes: [3, 1] })])).toHaveLength(2);
  });

  test("events without a partition stand alone", () => {
    expect(
      entriesOf([event({ offset: 1 }), event({ offset: 2, text: "broker 2 is fenced", nodes: [2] })]),
    ).toHaveLength(2);
  });

  test("does not change what it was given", () => {
    const first = elected(0);
    entriesOf([first, elected(1)]);
    expect(first.text).toBe("orders-0: 2 leads");
  });
});

test.each([
  ["controller_elected", "election"],
  ["leader_lost", "election"],
  ["isr_shrunk", "in-sync"],
  ["node_ended", "process"],
  ["gateway_started", "process"],
  ["broker_unfenced", "process"],
  ["topic_created", "topic"],
  ["reassignment_ended", "topic"],
  ["voters_changed", "cluster"],
  ["something_new", "cluster"],
])("%s is of the category %s", (kind, category) => {
  expect(categoryOf(kind)).toBe(category);
});

test("what is not an event is not taken for one", () => {
  expect(parseEvent("{")).toBeNull();
  expect(parseEvent("null")).toBeNull();
  expect(parseEvent('{"status":"failure","message":"gone"}')).toBeNull();
  expect(parseEvent('{"offset":1,"timestamp_ms":2,"kind":"k","text":"t"}')).toEqual({
    offset: 1,
    timestamp_ms: 2,
    kind: "k",
    text: "t",
    nodes: [],
  });
});
