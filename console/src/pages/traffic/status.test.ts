import { describe, expect, it } from "vitest";
import { ApiError, Unreachable } from "../../lib/failure";
import { EMPTY_MS, STALE_MS, statusOf, type Facts } from "./status";

const NOW = 1_000_000;
const facts = (some: Partial<Facts>): Facts => ({
  now: NOW,
  stream: { kind: "open" },
  openedAt: NOW - 60_000,
  hasHeat: true,
  advancedAt: NOW - 500,
  refusals: 0,
  ...some,
});
const waiting = (failure: Error): Facts["stream"] => ({ kind: "waiting", failure, retryAt: NOW + 500 });

describe("statusOf", () => {
  it("is live while time goes on", () => {
    expect(statusOf(facts({}))).toEqual({ kind: "live" });
    expect(statusOf(facts({ advancedAt: NOW - STALE_MS }))).toEqual({ kind: "live" });
  });

  it("is stale when nothing new comes", () => {
    expect(statusOf(facts({ advancedAt: NOW - STALE_MS - 1 }))).toEqual({
      kind: "stale",
      since: NOW - STALE_MS - 1,
    });
  });

  it("loads until the stream had the time to say something, then it is empty", () => {
    const none = { hasHeat: false, advancedAt: null };
    expect(statusOf(facts({ ...none, stream: { kind: "connecting" }, openedAt: null })).kind).toBe("loading");
    expect(statusOf(facts({ ...none, openedAt: NOW - EMPTY_MS + 1 })).kind).toBe("loading");
    expect(statusOf(facts({ ...none, openedAt: NOW - EMPTY_MS })).kind).toBe("empty");
  });

  it("is disconnected, with or without something to show", () => {
    const stream = waiting(new Unreachable("gone"));
    expect(statusOf(facts({ stream }))).toEqual({ kind: "disconnected", message: "gone" });
    expect(statusOf(facts({ stream, hasHeat: false }))).toEqual({ kind: "disconnected", message: "gone" });
  });

  it("takes a first refusal for a gateway that has started anew", () => {
    const stream = waiting(new ApiError(403, "contribute"));
    expect(statusOf(facts({ stream, refusals: 1 })).kind).toBe("disconnected");
    expect(statusOf(facts({ stream, refusals: 1, hasHeat: false })).kind).toBe("loading");
    expect(statusOf(facts({ stream, refusals: 2 }))).toEqual({ kind: "refused", message: "contribute" });
  });

  it("tells what the gateway says when it can not", () => {
    const failure = new ApiError(503, "no broker answered");
    expect(statusOf(facts({ stream: waiting(failure), hasHeat: false }))).toEqual({
      kind: "failed",
      failure,
    });
    expect(statusOf(facts({ stream: waiting(failure) })).kind).toBe("disconnected");
  });

  it("goes on showing while it connects again", () => {
    expect(statusOf(facts({ stream: { kind: "connecting" }, openedAt: null })).kind).toBe("live");
  });
});
