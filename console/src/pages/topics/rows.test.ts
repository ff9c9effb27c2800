import { describe, expect, it } from "vitest";
import type { Partition } from "../../lib/types";
import { filterRows, rowOf } from "./rows";

const partition = (some: Partial<Partition>): Partition => ({
  partition: 0,
  leader: 1,
  leader_epoch: 0,
  replicas: [1, 2, 3],
  isr: [1, 2, 3],
  high_watermark: 10,
  ...some,
});

describe("rowOf", () => {
  it("adds up what a topic holds", () => {
    expect(
      rowOf({ name: "t", partitions: [partition({}), partition({ high_watermark: 5, isr: [1] })] }),
    ).toEqual({
      name: "t",
      partitions: 2,
      replicas: 3,
      messages: 15,
      underReplicated: 1,
      leaderless: 0,
      isInternal: false,
    });
  });

  it("does not add what it does not know", () => {
    const row = rowOf({
      name: "__x",
      partitions: [partition({}), partition({ high_watermark: null, leader: null })],
    });
    expect(row).toMatchObject({ messages: null, leaderless: 1, isInternal: true });
  });

  it("takes a topic without partitions", () => {
    expect(rowOf({ name: "t", partitions: [] })).toMatchObject({ partitions: 0, replicas: 0, messages: 0 });
  });
});

describe("filterRows", () => {
  const rows = ["orders", "traffic.r0.c0", "traffic.heatmap", "__offsets"].map((name) =>
    rowOf({ name, partitions: [] }),
  );
  const names = (words: string, withInternal = false) =>
    filterRows(rows, words, withInternal).map((row) => row.name);

  it("hides internal topics unless they are wanted", () => {
    expect(names("")).toEqual(["orders", "traffic.r0.c0", "traffic.heatmap"]);
    expect(names("off", true)).toEqual(["__offsets"]);
  });

  it("wants all words, in whatever order and case", () => {
    expect(names("HEAT traffic")).toEqual(["traffic.heatmap"]);
    expect(names("  ")).toHaveLength(3);
    expect(names("nothing")).toEqual([]);
  });
});
