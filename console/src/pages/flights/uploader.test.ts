import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { CHUNK_BYTES_MAX } from "./chunks";
import { forgetUpload, resumeUpload, startUpload, uploads, type Uploader } from "./uploader";
import type { FileName } from "./wire";

const JOB = "0f8fad5b-d9cb-469f-a165-70867728950e";
const LINE = `${"x".repeat(1023)}\n`;
const ITINERARIES = LINE.repeat(1_200); // three chunks
const AIRPORTS = "a;b\nc;d";

type Reply = { status: number; body?: unknown; headers?: Record<string, string> } | "broken";

/** A gateway that keeps what comes, in order; for each request the test may say something else. */
class Gateway {
  readonly files: Record<FileName, string[]> = { airports: [], itineraries: [] };
  readonly ends: Partial<Record<FileName, number>> = {};
  readonly asked: string[] = [];
  /** Before anything else; undefined: as always. */
  instead: (asked: string) => Reply | undefined = () => undefined;

  readonly fetch = async (path: string, options: RequestInit): Promise<Response> => {
    const asked = `${options.method ?? "GET"} ${path.replace(`/v1/flights/jobs/${JOB}`, "")}`;
    this.asked.push(asked);
    options.signal?.throwIfAborted();
    const reply = this.instead(asked) ?? (await this.#answer(asked, options.body));
    if (reply === "broken") throw new TypeError("network error");
    return new Response(JSON.stringify(reply.body ?? {}), reply);
  };

  async #answer(asked: string, body: BodyInit | null | undefined): Promise<Reply> {
    const put = /^PUT \/(\w+)\?message=(\d+)$/.exec(asked);
    const end = /^POST \/(\w+)\/end$/.exec(asked);
    if (put !== null) {
      const file = this.files[put[1] as FileName];
      const message = Number(put[2]);
      if (message > file.length) return { status: 409, body: { next: file.length } };
      if (message === file.length) file.push(new TextDecoder().decode(body as Uint8Array));
      return { status: 200, body: { next: file.length } };
    }
    if (end !== null) {
      const name = end[1] as FileName;
      this.ends[name] = (JSON.parse(String(body)) as { messages: number }).messages;
      return { status: 200, body: { next: this.files[name].length } };
    }
    return { status: 200, body: { job: JOB, state: "receiving", files: this.#progress() } };
  }

  #progress(): Record<string, unknown> {
    const progress = (name: FileName): unknown => ({
      next: this.files[name].length,
      received: this.files[name].length,
      messages: this.ends[name] ?? null,
      bytes: this.files[name].join("").length,
    });
    return { airports: progress("airports"), itineraries: progress("itineraries") };
  }
}

const FILES = (): { airports: File; itineraries: File } => ({
  airports: new File([AIRPORTS], "airports.csv"),
  itineraries: new File([ITINERARIES], "itineraries.csv"),
});
let gateway: Gateway;

function uploader(): Uploader {
  const found = uploads.peek().get(JOB);
  if (found === undefined) throw new Error("nothing is uploaded");
  return found;
}

const phase = (): string => uploader().state.peek().phase.kind;
/** Time passes as fast as it can meanwhile. */
const settle = (wanted: string): Promise<void> =>
  vi.waitFor(
    async () => {
      await vi.advanceTimersByTimeAsync(100);
      expect(phase()).toBe(wanted);
    },
    { timeout: 60_000, interval: 5 },
  );

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
  vi.spyOn(Math, "random").mockReturnValue(0);
  gateway = new Gateway();
  vi.stubGlobal("fetch", gateway.fetch);
});

afterEach(() => {
  forgetUpload(JOB);
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

function expectAll(): void {
  expect(gateway.files.airports).toEqual([`${AIRPORTS}\n`]);
  expect(gateway.files.itineraries.join("")).toBe(ITINERARIES);
  expect(gateway.files.itineraries.map((chunk) => chunk.length)).toEqual([
    CHUNK_BYTES_MAX,
    CHUNK_BYTES_MAX,
    1_200 * 1_024 - 2 * CHUNK_BYTES_MAX,
  ]);
  expect(gateway.ends).toEqual({ airports: 1, itineraries: 3 });
}

test("all chunks in their order, and both ends", async () => {
  await startUpload(JOB, FILES());
  await settle("done");
  expectAll();
  expect(gateway.asked).toEqual([
    "POST /v1/flights/jobs",
    "PUT /airports?message=0",
    "POST /airports/end",
    "PUT /itineraries?message=0",
    "PUT /itineraries?message=1",
    "PUT /itineraries?message=2",
    "POST /itineraries/end",
  ]);
});

test("whatever goes wrong passes", async () => {
  const troubles: Reply[] = [
    "broken",
    { status: 503, body: { message: "no leader" } },
    { status: 429, headers: { "retry-after": "1" } },
    "broken",
    { status: 409, body: { next: 0 } },
  ];
  gateway.instead = (asked) => (/message=1$|\/end$/.test(asked) ? troubles.shift() : undefined);
  await startUpload(JOB, FILES());
  await settle("done");
  expect(troubles).toEqual([]);
  expectAll();
});

test("an answer that was lost: the chunk is there and is sent once more", async () => {
  let isLost = false;
  const fetch = gateway.fetch;
  vi.stubGlobal("fetch", async (path: string, options: RequestInit) => {
    const response = await fetch(path, options);
    if (path.endsWith("message=1") && !isLost) {
      isLost = true;
      throw new TypeError("network error");
    }
    return response;
  });
  await startUpload(JOB, FILES());
  await settle("done");
  expectAll();
});

test("a pause sends nothing, and then it goes on", async () => {
  gateway.instead = (asked) => (asked.endsWith("message=1") ? "broken" : undefined);
  await startUpload(JOB, FILES());
  await settle("waiting");
  uploader().pause();
  expect(phase()).toBe("paused");
  const before = gateway.asked.length;
  await vi.advanceTimersByTimeAsync(30_000);
  expect(gateway.asked.length).toBe(before);
  gateway.instead = () => undefined;
  uploader().go();
  await settle("done");
  expectAll();
});

test("a job that has failed ends it, with the reason", async () => {
  gateway.instead = (asked) =>
    asked.endsWith("message=1")
      ? { status: 409, body: { message: "the job has failed: quota", state: "failed", next: 1 } }
      : undefined;
  await startUpload(JOB, FILES());
  await settle("failed");
  expect(uploader().state.peek().phase).toEqual({ kind: "failed", reason: "the job has failed: quota" });
});

test("a job is gone on with behind what is there", async () => {
  gateway.files.airports.push(`${AIRPORTS}\n`);
  gateway.ends.airports = 1;
  gateway.files.itineraries.push(LINE.repeat(512));
  const { itineraries } = FILES();
  await resumeUpload(JOB, { itineraries });
  await settle("done");
  expectAll();
  expect(gateway.asked).not.toContain("PUT /itineraries?message=0");
});

test("not with another file", async () => {
  gateway.files.itineraries.push(LINE.repeat(500));
  await expect(resumeUpload(JOB, FILES())).rejects.toThrow("another file");
  expect(uploads.peek().has(JOB)).toBe(false);
});
