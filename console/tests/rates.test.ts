import { expect, test } from "vitest";
import { RateHistory } from "../src/lib/rates";
import type { Topic } from "../src/lib/types";

function topic(name: string, ...highWatermarks: (number | null)[]): Topic {
  return {
    name,
    partitions: highWatermarks.map((high_watermark, partition) => ({
      partition,
      leader: 1,
      leader_epoch: 0,
      replicas: [1],
      isr: [1],
      high_watermark,
    })),
  };
}

/** A history that knows since when its first answer is true, with these topics at 0 ms. */
function begun(...topics: Topic[]): RateHistory {
  return new RateHistory().after([topic("earlier", 0)], -2000).after([...topics, topic("earlier", 1)], 0);
}

test("the first answer may be old: how far it is to the second says nothing", () => {
  const history = new RateHistory().after([topic("a", 100)], 0).after([topic("a", 9000)], 1000);
  expect(history.latest("a")).toBeNull();
  expect(history.latestTotal(["a"])).toBeNull();
  expect(history.latest("unknown")).toBeNull();
  expect(history.after([topic("a", 9010)], 2000).latest("a")).toBe(10);
});

test("where nothing ever moves the rate is 0, not unknown", () => {
  const history = new RateHistory().after([topic("a", 7)], 0).after([topic("a", 7)], 3000);
  expect(history.latest("a")).toBe(0);
});

test("partitions and topics add up", () => {
  const history = begun(topic("a", 0, 0), topic("b", 0)).after([topic("a", 10, 20), topic("b", 5)], 1000);
  expect(history.latest("a")).toBe(30);
  expect(history.total(["a", "b"])).toEqual([35]);
});

test("one sample for each second, however far apart answers are", () => {
  const history = begun(topic("a", 0)).after([topic("a", 40)], 4000);
  expect(history.samples("a")).toEqual([10, 10, 10, 10]);
});

test("an answer in which nothing moved may be old, for a while", () => {
  const moving = begun(topic("a", 0)).after([topic("a", 10)], 1000);
  const waiting = moving.after([topic("a", 10)], 2000);
  expect(waiting).toBe(moving);
  expect(waiting.after([topic("a", 30)], 3000).samples("a")).toEqual([10, 10, 10]);
  const still = moving.after([topic("a", 10)], 4000);
  expect(still.latest("a")).toBe(0);
});

test("an election is not a burst: what came meanwhile is spread over the time", () => {
  const history = begun(topic("a", 0, 0))
    .after([topic("a", null, 10)], 1000)
    .after([topic("a", null, 20)], 2000)
    .after([topic("a", 30, 30)], 3000);
  expect(history.samples("a").at(-1)).toBeCloseTo((10 + 10 + 20) / 3);
});

test("a topic that was made anew does not run backwards", () => {
  const history = begun(topic("a", 500)).after([topic("a", 3)], 1000);
  expect(history.latest("a")).toBe(0);
});

test("topics that are gone are forgotten; new ones end at the same second", () => {
  const history = begun(topic("a", 0), topic("gone", 0))
    .after([topic("a", 10), topic("gone", 9), topic("new", 0)], 1000)
    .after([topic("a", 20), topic("new", 4)], 2000);
  expect(history.samples("gone")).toEqual([]);
  expect(history.total(["a", "new"])).toEqual([10, (10 + 14) / 2]);
});

test("a history is bounded", () => {
  let history = begun(topic("a", 0));
  for (let second = 1; second < 500; second += 1)
    history = history.after([topic("a", second)], second * 1000);
  expect(history.samples("a")).toHaveLength(90);
});
