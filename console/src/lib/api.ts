// Requests to the gateway that served this page. Each ends as JSON, or as ApiError or Unreachable.

import { ApiError, Unreachable, isAbort } from "./failure";
import { token } from "./token";

const ANSWER_MS_MAX = 10_000;

export interface RequestOptions {
  method?: "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
  /** Sent as JSON. */
  body?: unknown;
  signal?: AbortSignal;
  timeoutMs?: number;
}

export const get = <T>(path: string, signal?: AbortSignal): Promise<T> =>
  request<T>(path, signal === undefined ? {} : { signal });
export const post = <T>(path: string, body: unknown): Promise<T> =>
  request<T>(path, { method: "POST", body });
export const patch = <T>(path: string, body: unknown): Promise<T> =>
  request<T>(path, { method: "PATCH", body });
export const remove = <T>(path: string): Promise<T> => request<T>(path, { method: "DELETE" });

export async function request<T>(path: string, options: RequestOptions = {}): Promise<T> {
  const { method = "GET", body, signal, timeoutMs = ANSWER_MS_MAX } = options;
  const deadline = AbortSignal.timeout(timeoutMs);
  const headers: Record<string, string> = { accept: "application/json", ...authorization() };
  if (body !== undefined) headers["content-type"] = "application/json";
  try {
    const response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal === undefined ? deadline : AbortSignal.any([signal, deadline]),
    });
    return await answer<T>(response);
  } catch (error) {
    throw translate(error, signal, timeoutMs);
  }
}

/** An answer of whatever status, for those who go on differently after each. */
export interface Answer {
  status: number;
  /** Its JSON; null if it has none. */
  told: unknown;
  /** The gateway's own words about a failure, or what can be said without them. */
  message: string;
  retryAfterMs: number | null;
}

export interface ExchangeOptions {
  method: "PUT" | "POST";
  /** Bytes are sent as they are, anything else as JSON. */
  body: Uint8Array<ArrayBuffer> | object;
  signal: AbortSignal;
  timeoutMs: number;
}

/** Like `request`, but a refusal is an answer; Unreachable if there is none. */
export async function exchange(path: string, options: ExchangeOptions): Promise<Answer> {
  const { method, body, signal, timeoutMs } = options;
  const isBytes = body instanceof Uint8Array;
  const type = isBytes ? "text/csv" : "application/json";
  try {
    const response = await fetch(path, {
      method,
      headers: { accept: "application/json", "content-type": type, ...authorization() },
      body: isBytes ? body : JSON.stringify(body),
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    });
    const text = await response.text();
    const seconds = Number.parseFloat(response.headers.get("retry-after") ?? "");
    return {
      status: response.status,
      told: jsonIn(text),
      message: messageIn(text) ?? withoutWords(response),
      retryAfterMs: seconds >= 0 ? seconds * 1000 : null,
    };
  } catch (error) {
    throw translate(error, signal, timeoutMs);
  }
}

/** The header that says who asks; streams send it too. */
export function authorization(): Record<string, string> {
  return token.value === "" ? {} : { authorization: `Bearer ${token.value}` };
}

/** The failure that a response tells of, with the gateway's own words where it has some. */
export async function failureOf(response: Response): Promise<ApiError> {
  const text = await response.text();
  return new ApiError(response.status, messageIn(text) ?? withoutWords(response));
}

async function answer<T>(response: Response): Promise<T> {
  if (!response.ok) throw await failureOf(response);
  const text = await response.text();
  if (text === "") return undefined as T;
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new ApiError(response.status, "the answer is not JSON: is this a Penstock gateway?");
  }
}

function translate(error: unknown, signal: AbortSignal | undefined, timeoutMs: number): unknown {
  if (error instanceof ApiError) return error;
  if (signal?.aborted && isAbort(error)) return error;
  if (error instanceof DOMException && error.name === "TimeoutError") {
    return new Unreachable(`no answer within ${Math.round(timeoutMs / 1000)} s`);
  }
  return new Unreachable("the gateway can not be reached");
}

function withoutWords(response: Response): string {
  return `the gateway answered ${response.status} ${response.statusText}`.trim();
}

function messageIn(text: string): string | null {
  const told = jsonIn(text);
  if (typeof told === "object" && told !== null && "message" in told && typeof told.message === "string") {
    return told.message;
  }
  return null;
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null; // a proxy's page, perhaps; its status says enough
  }
}
