// How live the map is, in one line; read out when it changes.

import { now } from "../../lib/clock";
import { duration, time } from "../../lib/format";
import type { Status } from "./status";

export function StatusLine({ status }: { status: Status }) {
  return (
    <p class="traffic-status" role="status" data-testid="traffic-status" data-state={status.kind}>
      <span class={`status status-${toneOf(status)}`}>{textOf(status)}</span>
      {status.kind === "stale" && (
        // Not read out: it changes each second.
        <span class="muted" aria-hidden="true">
          {" "}
          for {duration((now.value - status.since) / 1000)}
        </span>
      )}
    </p>
  );
}

function toneOf(status: Status): "good" | "warn" | "bad" | "plain" {
  if (status.kind === "live") return "good";
  if (status.kind === "stale" || status.kind === "disconnected") return "warn";
  return status.kind === "refused" || status.kind === "failed" ? "bad" : "plain";
}

function textOf(status: Status): string {
  switch (status.kind) {
    case "live":
      return "Live";
    case "loading":
      return "Connecting";
    case "empty":
      return "Waiting for a heat map";
    case "stale":
      return `Nothing new since ${time(status.since)}`;
    case "disconnected":
      return "Disconnected, connecting again by itself";
    case "refused":
      return "Not allowed";
    case "failed":
      return "Not available";
  }
}
