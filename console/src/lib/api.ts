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

/** The header that says who asks; streams send it too. */
export function authorization(): Record<string, string> {
  return token.value === "" ? {} : { authorization: `Bearer ${token.value}` };
}

/** The failure that a response tells of, with the gateway's own words where it has some. */
export async function failureOf(response: Response): Promise<ApiError> {
  const text = await response.text();
  return new ApiError(
    response.status,
    messageIn(text) ?? `the gateway answered ${response.status} ${response.statusText}`.trim(),
  );
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

function messageIn(text: string): string | null {
  try {
    const told: unknown = JSON.parse(text);
    if (typeof told === "object" && told !== null && "message" in told && typeof told.message === "string") {
      return told.message;
    }
  } catch {
    // A proxy's page, perhaps; its status says enough.
  }
  return null;
}
