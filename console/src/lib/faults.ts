// Faults to try on a cluster of the gateway's own machine.

import { post } from "./api";
import { cluster } from "./cluster";
import { notify, notifyFailure } from "./notices";
import type { Done } from "./types";

export type Signal = "KILL" | "STOP" | "CONT" | "TERM";

/** `target` is a node's id, `leader:TOPIC`, `controller`, or a service. */
export async function sendSignal(target: string, signal: Signal): Promise<void> {
  try {
    const done = await post<Done>("/v1/cluster/kill", { target, signal });
    notify(done.message);
  } catch (error) {
    notifyFailure(error);
  }
  cluster.refresh();
}
