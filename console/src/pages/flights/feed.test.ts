import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { visible } from "../../lib/visible";
import { ResultFeed } from "./feed";
import type { Job, QueryProgress } from "./wire";

/** A gateway whose streams the test writes. */
class Gateway {
  opened = 0;
  closed = 0;
  refusal: Response | null = null;
  #stream: ReadableStreamDefaultController<Uint8Array> | undefined;

  readonly fetch = async (_: string, options: RequestInit): Promise<Response> => {
    this.opened += 1;
    if (this.refusal !== null) return this.refusal;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#stream = controller;
        options.signal?.addEventListener("abort", () => {
          this.closed += 1;
          controller.error(new DOMException("aborted", "AbortError"));
        });
      },
    });
    return new Response(body);
  };

  write(text: string): void {
    this.#stream?.enqueue(new TextEncoder().encode(text));
  }

  rows(count: number): void {
    const route = { startingAirport: "A", destinationAirport: "B" };
    const row = { legId: "a", ...route, totalFare: 1, stopovers: "X||Y||Z" };
    this.write(`${JSON.stringify(row)}\n`.repeat(count));
  }

  end(): void {
    this.#stream?.close();
  }

  break(): void {
    this.#stream?.error(new TypeError("network error"));
  }
}

function job(state: Job["state"], q1: QueryProgress): Job {
  return { state, queries: { q1 } } as Job;
}

const partial = (rows: number): Job => job("receiving", { state: "partial", rows });
const complete = (rows: number): Job => job("complete", { state: "complete", rows });
const settle = (ms = 300): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

let gateway: Gateway;
let feed: ResultFeed;
let stop: () => void;

const shown = (): [string, number] => [feed.shown.peek().phase, feed.shown.peek().digest.count];

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(Math, "random").mockReturnValue(1);
  gateway = new Gateway();
  vi.stubGlobal("fetch", gateway.fetch);
  feed = new ResultFeed("j", "q1");
  stop = feed.start();
});

afterEach(() => {
  stop();
  visible.value = true;
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

test("nothing is asked before there is something", async () => {
  feed.update(job("receiving", { state: "later", rows: 0 }));
  await settle();
  expect(gateway.opened).toBe(0);
});

test("rows as they come, to the end", async () => {
  feed.update(partial(2));
  await settle();
  gateway.rows(2);
  await settle();
  expect(shown()).toEqual(["reading", 2]);
  gateway.rows(3);
  await settle();
  expect(shown()).toEqual(["reading", 5]);
  gateway.end();
  await settle();
  expect(shown()).toEqual(["ended", 5]);
  feed.update(complete(5));
  await settle();
  expect(gateway.opened).toBe(1);
});

test("each drawing is a value of its own, which rows that come later do not change", async () => {
  feed.update(partial(2));
  await settle();
  gateway.rows(2);
  await settle();
  const { digest } = feed.shown.peek();
  gateway.rows(3);
  await settle();
  const later = feed.shown.peek().digest;
  expect(later).not.toBe(digest);
  expect([digest.count, digest.rows.length, digest.stopovers.get(3)]).toEqual([2, 2, 2]);
  expect([later.count, later.rows.length, later.stopovers.get(3)]).toEqual([5, 5, 5]);
});

test("rows that came just before a break are shown", async () => {
  feed.update(partial(4));
  await settle();
  gateway.rows(1);
  await settle(10);
  gateway.rows(3);
  await settle(10);
  gateway.break();
  await settle();
  expect(shown()).toEqual(["waiting", 4]);
});

test("rows that come just after a stream was opened anew do not wait for the next ones", async () => {
  feed.update(partial(5));
  await settle();
  gateway.rows(1);
  await settle(10);
  gateway.rows(1);
  await settle(10);
  visible.value = false;
  visible.value = true;
  await settle(10);
  gateway.rows(5);
  await settle();
  expect(shown()).toEqual(["reading", 5]);
});

test("what ended before all was there is asked for again", async () => {
  feed.update(partial(2));
  await settle();
  gateway.rows(2);
  gateway.end();
  await settle();
  feed.update(complete(3));
  await settle();
  expect(gateway.opened).toBe(2);
  gateway.rows(3);
  gateway.end();
  await settle();
  expect(shown()).toEqual(["ended", 3]);
});

test("after a break all is told again, and what is known stays until then", async () => {
  feed.update(partial(4));
  await settle();
  gateway.rows(4);
  await settle();
  gateway.break();
  await settle();
  expect(shown()).toEqual(["waiting", 4]);
  await settle(500);
  expect(gateway.opened).toBe(2);
  gateway.rows(3);
  await settle();
  expect(shown()).toEqual(["reading", 4]);
  gateway.rows(2);
  await settle();
  expect(shown()).toEqual(["reading", 5]);
});

test("a job that has failed says so at the end of its rows", async () => {
  feed.update(job("failed", { state: "partial", rows: 1 }));
  await settle();
  gateway.rows(1);
  gateway.write('{"status":"failure","message":"no airports"}\n');
  await settle();
  expect(shown()).toEqual(["failed", 1]);
  expect(feed.shown.peek().failure).toBe("no airports");
  feed.update(job("failed", { state: "partial", rows: 1 }));
  await settle(20_000);
  expect(gateway.opened).toBe(1);
});

test("a gateway that stops is asked again, but not for ever", async () => {
  feed.update(complete(5));
  for (let i = 0; i < 10; i += 1) {
    await settle(12_000);
    gateway.rows(1);
    gateway.write('{"status":"failure","message":"not kept"}\n');
    await settle();
  }
  expect(shown()).toEqual(["failed", 1]);
  expect(gateway.opened).toBe(5);
});

test("what is refused stays refused", async () => {
  gateway.refusal = new Response('{"message":"it was deleted"}', { status: 410 });
  feed.update(partial(1));
  await settle();
  expect(shown()).toEqual(["failed", 0]);
  expect(feed.shown.peek().failure).toBe("it was deleted");
});

test("nobody looks: nothing is read", async () => {
  feed.update(partial(1));
  await settle();
  gateway.rows(1);
  await settle();
  visible.value = false;
  await settle();
  expect(gateway.closed).toBe(1);
  visible.value = true;
  await settle();
  expect(gateway.opened).toBe(2);
  expect(shown()).toEqual(["reading", 1]);
});

test("a stream that fell silent while rows were told is opened again", async () => {
  feed.update(partial(1));
  await settle();
  gateway.rows(1);
  await settle(30_000);
  feed.update(partial(1));
  expect(gateway.opened).toBe(1);
  feed.update(partial(2));
  await settle();
  expect(gateway.opened).toBe(2);
});
