// What this gateway offers: asked when the page starts, and again when the gateway has been away, since then it
// may be another one. The answer brings the viewer's cookie, which the map needs.

import { get } from "./api";
import { Poll } from "./poll";
import type { ConsoleInfo } from "./types";

const INTERVAL_MS = 30_000;

export const consoleInfo = new Poll<ConsoleInfo>(
  (signal) => get<ConsoleInfo>("/v1/console", signal),
  INTERVAL_MS,
);

/** Whether processes can be killed from here. */
export function isLocal(): boolean {
  return consoleInfo.state.value.data?.local ?? false;
}
