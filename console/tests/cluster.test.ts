import { describe, expect, test } from "vitest";
import { healthOf, isInternal, loads, messagesSoFar, notInSync } from "../src/lib/cluster";
import { connectionOf } from "../src/lib/connection";
import { ApiError, Unreachable } from "../src/lib/failure";
import { byTopic, withSample } from "../src/lib/groups";
import { NOTHING_YET, type Resource } from "../src/lib/poll";
import { tileUrlProblem } from "../src/lib/tiles";
import type { Broker, ClusterState, Group, Partition } from "../src/lib/types";
import { problemsOf } from "../src/pages/overview/problems";
import { optionsFor } from "../src/pages/overview/quickstart_options";

function partition(partition: number, leader: number | null, replicas: number[], isr: number[]): Partition {
  return { partition, leader, leader_epoch: 0, replicas, isr, high_watermark: 0 };
}

function broker(id: number, state = "running", port = 9091 + id): Broker {
  return { id, host: "127.0.0.1", port, pid: id, state, roles: ["broker"] };
}

const WELL: ClusterState = {
  cluster_id: "c",
  controller: 1,
  brokers: [broker(1), broker(2), broker(3)],
  topics: [
    { name: "a", partitions: [partition(0, 1, [1, 2, 3], [1, 2, 3]), partition(1, 2, [2, 3, 1], [1, 2, 3])] },
  ],
};
const HURT: ClusterState = {
  cluster_id: "c",
  controller: null,
  brokers: [broker(1), broker(2, "paused"), broker(3, "down")],
  topics: [{ name: "a", partitions: [partition(0, 1, [1, 2, 3], [1]), partition(1, null, [2, 3], [])] }],
};

describe("health", () => {
  test("of a cluster that is well", () => {
    expect(healthOf(WELL)).toEqual({
      brokersRunning: 3,
      brokers: 3,
      partitions: 2,
      underReplicated: 0,
      leaderless: 0,
    });
    expect(problemsOf(WELL)).toEqual([]);
  });

  test("of one that is not", () => {
    expect(healthOf(HURT)).toEqual({
      brokersRunning: 1,
      brokers: 3,
      partitions: 2,
      underReplicated: 2,
      leaderless: 1,
    });
    expect(problemsOf(HURT)).toEqual([
      "Broker 2 is paused.",
      "Broker 3 is down.",
      "There is no active controller: topics can not be created or changed now.",
      "1 partition without a leader: reads and writes of them wait.",
      "2 partitions with replicas that are not in sync.",
    ]);
  });

  test("who leads, holds and is behind", () => {
    expect(Object.fromEntries(loads(HURT.topics))).toEqual({
      1: { leads: 1, holds: 1, behind: 0 },
      2: { leads: 0, holds: 2, behind: 2 },
      3: { leads: 0, holds: 2, behind: 2 },
    });
    expect(notInSync(partition(0, 1, [3, 1, 2], [1]))).toEqual([3, 2]);
  });

  test("messages are counted where partitions tell", () => {
    expect(messagesSoFar(WELL.topics)).toBe(0);
    const quiet = { ...partition(0, 1, [1], [1]), high_watermark: null };
    expect(messagesSoFar([{ name: "a", partitions: [quiet] }])).toBeNull();
    expect(messagesSoFar([{ name: "a", partitions: [quiet, { ...quiet, high_watermark: 7 }] }])).toBe(7);
  });

  test("internal topics", () => {
    expect(isInternal("__consumer_offsets")).toBe(true);
    expect(isInternal("traffic.map")).toBe(false);
  });
});

describe("connection", () => {
  const failing = (failure: Error): Resource<string> => ({
    data: "old",
    at: 1,
    failure,
    failingSince: 5,
    retryAt: 9,
  });

  test("before the first answer, and after it", () => {
    expect(connectionOf(NOTHING_YET)).toEqual({ kind: "connecting" });
    expect(connectionOf({ ...NOTHING_YET, data: "x", at: 1 })).toEqual({ kind: "connected" });
  });

  test.each([
    [new Unreachable("away"), "unreachable"],
    [new ApiError(503, "no admin endpoint"), "failing"],
    [new ApiError(401, "a token is needed"), "refused"],
  ])("%s", (failure, kind) => {
    expect(connectionOf(failing(failure))).toEqual({ kind, since: 5, message: failure.message, retryAt: 9 });
  });
});

describe("groups", () => {
  const group = (name: string, lag: number): Group => ({
    group: name,
    state: "stable",
    assignor: null,
    members: [],
    lag,
    partitions: [],
  });

  test("lag is remembered for those that are there, and not for ever", () => {
    let history = withSample(new Map(), [group("a", 5), group("gone", 1)]);
    history = withSample(history, [group("a", 7)]);
    expect([...history]).toEqual([["a", [5, 7]]]);
    for (let sample = 0; sample < 100; sample += 1) history = withSample(history, [group("a", sample)]);
    expect(history.get("a")).toHaveLength(60);
  });

  test("partitions by topic, in order", () => {
    const entry = (topic: string, partition: number) => ({
      topic,
      partition,
      committed: 0,
      end: 0,
      lag: 0,
      member: null,
    });
    const found = byTopic({
      ...group("a", 0),
      partitions: [entry("b", 1), entry("a", 10), entry("a", 2), entry("b", 0)],
    });
    expect(found.map(([topic, each]) => [topic, each.map(({ partition }) => partition)])).toEqual([
      ["a", [2, 10]],
      ["b", [0, 1]],
    ]);
  });
});

test("commands name the address where it is not the usual one", () => {
  expect(optionsFor(WELL)).toBe("");
  expect(optionsFor({ ...WELL, brokers: [broker(1, "running", 19_092)] })).toBe(
    " --bootstrap 127.0.0.1:19092",
  );
  expect(optionsFor({ ...WELL, brokers: [] })).toBe("");
});

test.each([
  ["", null],
  ["https://tiles.example/{z}/{x}/{y}.png", null],
  ["http://tiles.example/{z}/{x}/{y}.png", "It has to begin with https://."],
  ["javascript:alert(1)", "It has to begin with https://."],
  ["https://tiles.example/{z}/{x}.png", "It needs {y}, where the number of the tile goes."],
])("address of tiles: %j", (url, problem) => {
  expect(tileUrlProblem(url)).toBe(problem);
});
