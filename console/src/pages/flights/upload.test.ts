import { describe, expect, test } from "vitest";
import {
  ANOTHER_FILE,
  advance,
  newUpload,
  nextStep,
  outcomeOf,
  progressOf,
  type Outcome,
  type Upload,
} from "./upload";
import type { Job } from "./wire";

const NOW = 1_000;

function after(...outcomes: Outcome[]): Upload {
  return from(newUpload({ airports: 100, itineraries: 1_000 }), ...outcomes);
}

function from(upload: Upload, ...outcomes: Outcome[]): Upload {
  return outcomes.reduce((state, outcome) => advance(state, outcome, NOW, 1), upload);
}

const moved = (file: "airports" | "itineraries", next: number, at: number | null): Outcome => ({
  kind: "moved",
  file,
  next,
  at,
});
const AIRPORTS_DONE: Outcome[] = [
  moved("airports", 1, 100),
  { kind: "sent", file: "airports" },
  { kind: "ended", file: "airports" },
];

function job(changes: Partial<Job>): Job {
  const file = { next: 0, received: 0, messages: null, bytes: 0, duplicates: 0 };
  const query = { state: "later" as const, rows: 0 };
  return {
    job: "j",
    state: "receiving",
    reason: null,
    created_ms: 0,
    updated_ms: 0,
    files: { airports: file, itineraries: file },
    queries: { q1: query, q2: query, q3: query, q4: query },
    rows_read: 0,
    rows_rejected: 0,
    summary: null,
    expired: false,
    service: "running",
    ...changes,
  };
}

test("chunk by chunk, airports first, and an end for each", () => {
  let upload = after();
  expect(nextStep(upload)).toEqual({ kind: "chunk", file: "airports", message: 0 });
  upload = from(upload, moved("airports", 1, 100));
  expect(nextStep(upload)).toEqual({ kind: "chunk", file: "airports", message: 1 });
  upload = from(upload, { kind: "sent", file: "airports" });
  expect(nextStep(upload)).toEqual({ kind: "end", file: "airports", messages: 1 });
  upload = from(upload, { kind: "ended", file: "airports" }, moved("itineraries", 1, 600));
  expect(nextStep(upload)).toEqual({ kind: "chunk", file: "itineraries", message: 1 });
  expect(progressOf(upload)).toEqual({ sent: 700, size: 1_100 });
  upload = from(
    upload,
    moved("itineraries", 2, 1_000),
    { kind: "sent", file: "itineraries" },
    { kind: "ended", file: "itineraries" },
  );
  expect(upload.phase.kind).toBe("done");
  expect(nextStep(upload)).toBeNull();
});

test("the gateway knows where to go on, forward and back", () => {
  let upload = after(...AIRPORTS_DONE, moved("itineraries", 5, 500));
  expect(nextStep(upload)).toEqual({ kind: "chunk", file: "itineraries", message: 5 });
  upload = from(upload, { kind: "sent", file: "itineraries" }, moved("itineraries", 3, 300));
  expect(nextStep(upload)).toEqual({ kind: "chunk", file: "itineraries", message: 3 });
  expect(progressOf(upload).sent).toBe(400);
});

test("a gateway that has more than the file has is of another file", () => {
  const upload = after(moved("airports", 9, null));
  expect(upload.phase).toEqual({ kind: "failed", reason: ANOTHER_FILE });
});

test("being asked for the same again is no reason to hurry", () => {
  const upload = after(moved("airports", 0, 0));
  expect(upload.phase.kind).toBe("waiting");
  expect(nextStep(upload)).toEqual({ kind: "chunk", file: "airports", message: 0 });
  const atEnd = after(moved("airports", 1, 100), { kind: "sent", file: "airports" }, moved("airports", 1, 100));
  expect(atEnd.phase.kind).toBe("waiting");
});

test("waits grow, are told by the gateway, and end with a success", () => {
  const wait: Outcome = { kind: "wait", ms: null, why: "away" };
  expect(after(wait).phase).toEqual({ kind: "waiting", until: NOW + 500, why: "away" });
  expect(after(wait, wait, wait).phase).toEqual({ kind: "waiting", until: NOW + 2_000, why: "away" });
  expect(after({ kind: "wait", ms: 3_000, why: "full" }).phase).toMatchObject({ until: NOW + 3_000 });
  const well = after(wait, wait, moved("airports", 1, 100));
  expect(well.failures).toBe(0);
  expect(well.phase.kind).toBe("sending");
});

test("a pause is a pause, until somebody goes on", () => {
  const upload = after(moved("airports", 1, 50), { kind: "paused" });
  expect(nextStep(upload)).toBeNull();
  expect(from(upload, { kind: "wait", ms: null, why: "away" }).phase.kind).toBe("paused");
  expect(from(upload, moved("airports", 2, 100)).phase.kind).toBe("paused");
  expect(nextStep(from(upload, { kind: "resumed" }))).toEqual({ kind: "chunk", file: "airports", message: 1 });
});

test("a refusal ends it, unless somebody tries again", () => {
  const upload = after({ kind: "refused", reason: "no such job" });
  expect(upload.phase).toEqual({ kind: "failed", reason: "no such job" });
  expect(nextStep(upload)).toBeNull();
  expect(from(upload, { kind: "paused" }).phase.kind).toBe("failed");
  expect(nextStep(from(upload, { kind: "resumed" }))).not.toBeNull();
});

describe("a refusal that the state of the job explains", () => {
  const look = (changes: Partial<Job>): Upload =>
    after({ kind: "looked", file: "airports", job: job(changes), message: "not now" });

  test("it has failed", () => {
    expect(look({ state: "failed", reason: "no airports" }).phase).toEqual({
      kind: "failed",
      reason: "no airports",
    });
    expect(look({ state: "deleted" }).phase).toEqual({ kind: "failed", reason: "the job is deleted" });
  });

  test("the file that the job was begun with was shorter", () => {
    const whole = { next: 1, received: 1, messages: 1, bytes: 50, duplicates: 0 };
    const { files } = job({});
    const looked: Outcome = {
      kind: "looked",
      file: "airports",
      job: job({ files: { ...files, airports: whole } }),
      message: "not now",
    };
    expect(after(moved("airports", 1, 50), looked).phase).toEqual({ kind: "failed", reason: ANOTHER_FILE });
  });

  test("it does not", () => {
    expect(look({}).phase).toEqual({ kind: "failed", reason: "not now" });
  });
});

describe("answers", () => {
  const chunk = { kind: "chunk", file: "airports", message: 4 } as const;
  const end = { kind: "end", file: "airports", messages: 4 } as const;
  const told = (status: number, body: unknown = null, retryAfterMs: number | null = null) => ({
    status,
    told: body,
    message: "why",
    retryAfterMs,
  });

  test.each([
    [chunk, told(200, { next: 5 }), { kind: "next", next: 5 }],
    [chunk, told(200, { next: 9, duplicate: true }), { kind: "next", next: 9 }],
    [chunk, told(200), { kind: "next", next: 5 }],
    [chunk, told(409, { next: 2 }), { kind: "next", next: 2 }],
    [chunk, told(409, { next: "2" }), { kind: "look", message: "why" }],
    [chunk, told(409), { kind: "look", message: "why" }],
    [chunk, told(409, { next: 4 }), { kind: "look", message: "why" }],
    [chunk, told(409, { next: 4, state: "failed" }), { kind: "refused", reason: "why" }],
    [chunk, told(413), { kind: "refused", reason: "why" }],
    [chunk, told(429, null, 2_000), { kind: "wait", ms: 2_000, why: "why" }],
    [chunk, told(503), { kind: "wait", ms: null, why: "why" }],
    [chunk, told(502), { kind: "wait", ms: null, why: "why" }],
    [chunk, told(408), { kind: "wait", ms: null, why: "why" }],
    [chunk, told(400), { kind: "refused", reason: "why" }],
    [chunk, told(410), { kind: "refused", reason: "why" }],
    [end, told(200), { kind: "ended", file: "airports" }],
    [end, told(409, { next: 3 }), { kind: "next", next: 3 }],
  ])("%o %o", (step, answer, outcome) => {
    expect(outcomeOf(step, answer)).toEqual(outcome);
  });
});
