// What to do if the Flights service does not live.

import { Command } from "../../ui/Command";
import { Icon } from "../../ui/Icon";
import type { ServiceState } from "./wire";

export function isAway(state: ServiceState): boolean {
  return state === "down" || state === "not started";
}

/** Nothing while the service runs. */
export function ServiceNote({ state }: { state: ServiceState }) {
  // The region is there before it has something to say: only then is what appears in it read out.
  return (
    <div class="service-status" role="status" data-testid="service" data-state={state}>
      {isAway(state) && (
        <div class="service-note">
          <Icon name="warning" size={20} />
          <p>The Flights service does not run. What is uploaded is kept, and computed as soon as it does:</p>
          <Command>penstock flights serve</Command>
        </div>
      )}
      {state === "starting" && (
        <p class="service-note">
          <Icon name="clock" size={20} /> The Flights service is starting; Spark takes a few seconds.
        </p>
      )}
      {state === "late" && (
        <p class="service-note">
          <Icon name="clock" size={20} /> The Flights service was not heard of for some seconds.
        </p>
      )}
    </div>
  );
}
