import { Badge, type Tone } from "../../ui/Badge";

/** In Kafka's words: Stable, PreparingRebalance, CompletingRebalance, Empty, Dead. */
export function GroupState({ state }: { state: string }) {
  return <Badge tone={toneOf(state)}>{spaced(state)}</Badge>;
}

function toneOf(state: string): Tone {
  if (/stable/i.test(state)) return "good";
  if (/rebalance|assigning|reconciling/i.test(state)) return "warn";
  return /dead/i.test(state) ? "bad" : "plain";
}

/** "PreparingRebalance" is "preparing rebalance". */
function spaced(state: string): string {
  return state
    .replaceAll("_", " ")
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .toLowerCase();
}
