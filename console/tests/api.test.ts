import { afterEach, describe, expect, test, vi } from "vitest";
import { exchange, get, post } from "../src/lib/api";
import { ApiError, Unreachable, needsToken } from "../src/lib/failure";
import { token } from "../src/lib/token";

function answering(response: Response | Error): ReturnType<typeof vi.fn> {
  const fetch = vi.fn(async () => {
    if (response instanceof Error) throw response;
    return response;
  });
  vi.stubGlobal("fetch", fetch);
  return fetch;
}

afterEach(() => {
  token.value = "";
  vi.unstubAllGlobals();
});

test("JSON in and out, with the token", async () => {
  token.value = "secret-secret-secret";
  const fetch = answering(new Response('{"status":"success"}'));
  expect(await post("/v1/x", { a: 1 })).toEqual({ status: "success" });
  expect(fetch.mock.calls[0]?.[0]).toBe("/v1/x");
  expect(fetch.mock.calls[0]?.[1]).toMatchObject({
    method: "POST",
    body: '{"a":1}',
    headers: { authorization: "Bearer secret-secret-secret", "content-type": "application/json" },
  });
});

test("without a token there is no header for it", async () => {
  const fetch = answering(new Response("{}"));
  await get("/v1/x");
  expect(fetch.mock.calls[0]?.[1].headers).toEqual({ accept: "application/json" });
});

describe("an exchange", () => {
  const options = (body: object) => ({
    method: "PUT" as const,
    body,
    signal: new AbortController().signal,
    timeoutMs: 1_000,
  });

  test("bytes go as they are, and a refusal is an answer", async () => {
    const body = '{"status":"failure","message":"too fast","next":3}';
    const fetch = answering(new Response(body, { status: 429, headers: { "retry-after": "2" } }));
    const bytes = new TextEncoder().encode("a,b\n");
    expect(await exchange("/v1/x", options(bytes))).toEqual({
      status: 429,
      told: { status: "failure", message: "too fast", next: 3 },
      message: "too fast",
      retryAfterMs: 2_000,
    });
    expect(fetch.mock.calls[0]?.[1].body).toBe(bytes);
    expect(fetch.mock.calls[0]?.[1].headers).toMatchObject({ "content-type": "text/csv" });
  });

  test("a page of a proxy says little", async () => {
    answering(new Response("<html>", { status: 502, statusText: "Bad Gateway" }));
    expect(await exchange("/v1/x", options({ a: 1 }))).toEqual({
      status: 502,
      told: null,
      message: "the gateway answered 502 Bad Gateway",
      retryAfterMs: null,
    });
  });

  test("no answer at all", async () => {
    answering(new TypeError("network error"));
    await expect(exchange("/v1/x", options({}))).rejects.toThrow(Unreachable);
  });
});

test("an empty answer is nothing", async () => {
  answering(new Response(null, { status: 204 }));
  expect(await get("/v1/x")).toBeUndefined();
});

describe("failures", () => {
  test.each([
    [
      new Response('{"status":"failure","message":"there is no such topic"}', { status: 404 }),
      404,
      "there is no such topic",
    ],
    [
      new Response("<html>", { status: 502, statusText: "Bad Gateway" }),
      502,
      "the gateway answered 502 Bad Gateway",
    ],
    [new Response('{"message": 7}', { status: 500 }), 500, "the gateway answered 500"],
    [new Response("<!doctype html>"), 200, "the answer is not JSON: is this a Penstock gateway?"],
  ])("%#", async (response, status, message) => {
    answering(response);
    const failure = await get("/v1/x").catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ApiError);
    expect(failure).toMatchObject({ status, message });
  });

  test("no gateway", async () => {
    answering(new TypeError("Failed to fetch"));
    await expect(get("/v1/x")).rejects.toThrow(new Unreachable("the gateway can not be reached"));
  });

  test("no answer in time", async () => {
    answering(new DOMException("signal timed out", "TimeoutError"));
    await expect(get("/v1/x")).rejects.toThrow("no answer within 10 s");
  });

  test("called off by the page: nobody's failure", async () => {
    answering(new DOMException("aborted", "AbortError"));
    const leaving = AbortSignal.abort();
    const failure = await get("/v1/x", leaving).catch((error: unknown) => error);
    expect(failure).not.toBeInstanceOf(Unreachable);
  });

  test("which of them a token would cure", () => {
    expect(needsToken(new ApiError(401, "a token is needed"))).toBe(true);
    expect(needsToken(new ApiError(403, "that takes a token for admin"))).toBe(true);
    expect(needsToken(new ApiError(403, "car 7 has not contributed"))).toBe(false);
    expect(needsToken(new Unreachable("token"))).toBe(false);
  });
});
