import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ApiError } from "../src/lib/failure";
import { followStream, type ServerEvent, type StreamState } from "../src/lib/stream";
import { visible } from "../src/lib/visible";

/** A gateway whose streams the test writes. */
class Gateway {
  readonly requests: { headers: Record<string, string>; signal: AbortSignal }[] = [];
  #streams: ReadableStreamDefaultController<Uint8Array>[] = [];
  refusal: Response | null = null;

  readonly fetch = async (_: string, options: RequestInit): Promise<Response> => {
    const signal = options.signal as AbortSignal;
    this.requests.push({ headers: options.headers as Record<string, string>, signal });
    if (this.refusal !== null) return this.refusal;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#streams.push(controller);
        signal.addEventListener("abort", () => controller.error(new DOMException("aborted", "AbortError")));
      },
    });
    return new Response(body);
  };

  write(text: string): void {
    this.#streams.at(-1)?.enqueue(new TextEncoder().encode(text));
  }

  end(): void {
    this.#streams.at(-1)?.close();
  }

  break(): void {
    this.#streams.at(-1)?.error(new TypeError("network error"));
  }
}

let gateway: Gateway;
let events: ServerEvent[];
let states: StreamState[];
let stop: () => void;

function follow(isFinal: (failure: Error) => boolean = () => false): void {
  stop = followStream("/v1/x/events", {
    onEvent: (event) => events.push(event),
    onState: (state) => states.push(state),
    isFinal,
  });
}

const kinds = (): string[] => states.map((state) => state.kind);
const settle = (): Promise<unknown> => vi.advanceTimersByTimeAsync(0);

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(Math, "random").mockReturnValue(1);
  gateway = new Gateway();
  vi.stubGlobal("fetch", gateway.fetch);
  [events, states] = [[], []];
});

afterEach(() => {
  stop();
  visible.value = true;
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

test("events as they come", async () => {
  follow();
  await settle();
  gateway.write("data: 1\n\nda");
  await settle();
  gateway.write("ta: 2\n\n");
  await settle();
  expect(events.map((event) => event.data)).toEqual(["1", "2"]);
  expect(kinds()).toEqual(["connecting", "open"]);
});

test("a stream that breaks is opened again behind the last event", async () => {
  follow();
  await settle();
  gateway.write("id: 41\ndata: a\n\ndata: half");
  await settle();
  gateway.break();
  await settle();
  expect(states.at(-1)).toMatchObject({ kind: "waiting" });
  await vi.advanceTimersByTimeAsync(500);
  expect(gateway.requests[0]?.headers["last-event-id"]).toBeUndefined();
  expect(gateway.requests[1]?.headers["last-event-id"]).toBe("41");
  gateway.write("data: b\n\n");
  await settle();
  expect(events.map((event) => event.data)).toEqual(["a", "b"]);
});

test("one that the gateway ends, too", async () => {
  follow();
  await settle();
  gateway.end();
  await vi.advanceTimersByTimeAsync(500);
  expect(gateway.requests).toHaveLength(2);
});

test("one that falls silent, too, but heartbeats keep it", async () => {
  follow();
  await settle();
  for (let beat = 0; beat < 5; beat += 1) {
    await vi.advanceTimersByTimeAsync(15_000);
    gateway.write(": heartbeat\n\n");
  }
  expect(gateway.requests).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(41_000);
  expect(states.filter((state) => state.kind === "waiting").map((state) => state.failure.message)).toEqual([
    "the stream fell silent",
  ]);
  expect(gateway.requests).toHaveLength(2);
});

test("a refusal is told with the gateway's words, and may be for good", async () => {
  gateway.refusal = new Response('{"status":"failure","message":"there is no topic"}', { status: 404 });
  follow((failure) => failure instanceof ApiError && failure.status === 404);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(gateway.requests).toHaveLength(1);
  expect(states.at(-1)).toMatchObject({
    kind: "ended",
    failure: { message: "there is no topic", status: 404 },
  });
});

test("closed while nobody sees the page", async () => {
  follow();
  await settle();
  visible.value = false;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(gateway.requests[0]?.signal.aborted).toBe(true);
  expect(gateway.requests).toHaveLength(1);
  visible.value = true;
  await settle();
  expect(gateway.requests).toHaveLength(2);
});

test("closed for good when the page says so", async () => {
  follow();
  await settle();
  stop();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(gateway.requests).toHaveLength(1);
  expect(kinds()).toEqual(["connecting", "open"]);
});
