import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Unreachable } from "../src/lib/failure";
import { Poll } from "../src/lib/poll";
import { visible } from "../src/lib/visible";

beforeEach(() => {
  vi.useFakeTimers({ now: 1_000_000 });
  vi.spyOn(Math, "random").mockReturnValue(1);
});

afterEach(() => {
  visible.value = true;
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** A poll whose answers the test gives. */
function polled(...answers: (string | Error)[]): { poll: Poll<string>; asked: () => number } {
  let asked = 0;
  const poll = new Poll<string>(() => {
    asked += 1;
    const answer = answers[Math.min(asked, answers.length) - 1];
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer ?? "");
  }, 1_000);
  return { poll, asked: () => asked };
}

describe("a poll", () => {
  test("asks nothing before somebody looks, and nothing after", async () => {
    const { poll, asked } = polled("a");
    await vi.advanceTimersByTimeAsync(5_000);
    expect(asked()).toBe(0);
    const stop = poll.start();
    await vi.advanceTimersByTimeAsync(2_500);
    expect(asked()).toBe(3);
    stop();
    stop();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(asked()).toBe(3);
  });

  test("is shared: it goes on until the last one leaves", async () => {
    const { poll, asked } = polled("a");
    const [first, second] = [poll.start(), poll.start()];
    await vi.advanceTimersByTimeAsync(0);
    expect(asked()).toBe(1);
    first();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(asked()).toBe(2);
    second();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(asked()).toBe(2);
  });

  test("keeps the last answer while later ones fail, and says since when", async () => {
    const { poll } = polled("a", new Unreachable("away"), new Unreachable("still away"), "b");
    poll.start();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(poll.state.value).toMatchObject({
      data: "a",
      at: 1_000_000,
      failingSince: 1_001_000,
      retryAt: 1_001_500,
    });
    expect(poll.state.value.failure?.message).toBe("away");
    await vi.advanceTimersByTimeAsync(500);
    expect(poll.state.value.failure?.message).toBe("still away");
    expect(poll.state.value.failingSince).toBe(1_001_000);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(poll.state.value).toMatchObject({ data: "b", failure: null, failingSince: null, retryAt: null });
  });

  test("waits longer after each failure, but not for ever", async () => {
    const { poll, asked } = polled(new Unreachable("away"));
    poll.start();
    const waits: number[] = [];
    for (let failure = 0; failure < 8; failure += 1) {
      await vi.advanceTimersByTimeAsync(0);
      const { retryAt } = poll.state.value;
      waits.push((retryAt ?? 0) - Date.now());
      await vi.advanceTimersByTimeAsync(waits.at(-1) ?? 0);
    }
    expect(waits).toEqual([500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000]);
    expect(asked()).toBe(9);
  });

  test("rests while nobody sees the page, and asks at once when somebody does", async () => {
    const { poll, asked } = polled("a");
    poll.start();
    await vi.advanceTimersByTimeAsync(0);
    visible.value = false;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked()).toBe(1);
    visible.value = true;
    await vi.advanceTimersByTimeAsync(0);
    expect(asked()).toBe(2);
  });

  test("an answer that nobody waits for any more is dropped", async () => {
    let answer: (text: string) => void = () => undefined;
    const poll = new Poll<string>(() => new Promise((resolve) => (answer = resolve)), 1_000);
    const stop = poll.start();
    stop();
    answer("late");
    await vi.advanceTimersByTimeAsync(0);
    expect(poll.state.value.data).toBeNull();
  });

  test("refresh asks now, and the clock starts anew", async () => {
    const { poll, asked } = polled("a");
    poll.start();
    await vi.advanceTimersByTimeAsync(900);
    poll.refresh();
    await vi.advanceTimersByTimeAsync(900);
    expect(asked()).toBe(2);
    await vi.advanceTimersByTimeAsync(100);
    expect(asked()).toBe(3);
  });
});
