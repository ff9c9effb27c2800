import { describe, expect, it } from "vitest";
import { answerOf, frameOf } from "./writing";

describe("frameOf", () => {
  it("leaves out what is not given", () => {
    expect(frameOf({ key: null, value: "v", partition: null })).toEqual({ value: "v" });
    expect(frameOf({ key: "", value: null, partition: 0 })).toEqual({ key: "", value: null, partition: 0 });
  });
});

describe("answerOf", () => {
  it("is where the message is, or why it is not there", () => {
    expect(answerOf('{"partition":1,"offset":41}')).toEqual({ partition: 1, offset: 41 });
    expect(answerOf('{"status":"failure","message":"too large"}')).toEqual(new Error("too large"));
    expect(answerOf("{}")).toBeInstanceOf(Error);
    expect(answerOf("?")).toBeInstanceOf(Error);
  });
});
