// Across the top of every page while what is shown may be old.

import { now } from "../lib/clock";
import { cluster } from "../lib/cluster";
import { connection, type Connection } from "../lib/connection";
import { duration, time } from "../lib/format";
import { href } from "../lib/router";
import { Button } from "./Button";
import { Icon } from "./Icon";

type Broken = Extract<Connection, { since: number }>;

const TITLES: Record<Broken["kind"], string> = {
  unreachable: "Disconnected from the gateway",
  refused: "The gateway asks for a token",
  failing: "The gateway does not know the state of the cluster",
};

export function ConnectionBanner() {
  const state = connection.value;
  // The region is there before it has something to say: only then is what appears in it read out.
  return (
    <div class="connection" role="status" aria-live="polite">
      {"since" in state && <Trouble state={state} />}
    </div>
  );
}

function Trouble({ state }: { state: Broken }) {
  const known = cluster.state.value.at;
  return (
    <div class="banner" data-testid="state-disconnected">
      <Icon name={state.kind === "refused" ? "warning" : "plug"} size={22} />
      <div class="banner-text">
        <strong>{TITLES[state.kind]}</strong>
        <span>
          {" "}
          since {time(state.since)}: {state.message}.
          {known !== null && ` What you see is from ${time(known)}.`}
        </span>
      </div>
      {state.kind === "refused" ? (
        <a class="button button-plain button-small" href={href("settings")}>
          Enter a token
        </a>
      ) : (
        <div class="banner-retry">
          {/* Not read out: it changes each second. */}
          <span aria-hidden="true">{nextTry(state.retryAt)}</span>
          <Button small icon="refresh" onClick={() => cluster.refresh()}>
            Try now
          </Button>
        </div>
      )}
    </div>
  );
}

function nextTry(retryAt: number | null): string {
  if (retryAt === null) return "";
  const seconds = Math.ceil((retryAt - now.value) / 1000);
  return seconds > 0 ? `next try in ${duration(seconds)}` : "trying…";
}
