// A word with a sign and a colour: the word and the sign say the same as the colour.

import { Icon, type IconName } from "./Icon";

export type Tone = "good" | "warn" | "bad" | "plain";

const SIGNS: Record<Tone, IconName | null> = { good: "check", warn: "warning", bad: "cross", plain: null };

export function Badge({
  tone = "plain",
  children,
  icon,
}: {
  tone?: Tone;
  children: string;
  icon?: IconName;
}) {
  const sign = icon ?? SIGNS[tone];
  return (
    <span class={`badge badge-${tone}`}>
      {sign !== null && <Icon name={sign} size={13} />}
      {children}
    </span>
  );
}

/** Of a process: running is good, what comes back by itself is a warning. */
export function StateBadge({ state }: { state: string }) {
  if (state === "running") return <Badge tone="good">running</Badge>;
  if (state === "paused")
    return (
      <Badge tone="warn" icon="pause">
        paused
      </Badge>
    );
  if (state === "starting" || state === "late")
    return (
      <Badge tone="warn" icon="clock">
        {state}
      </Badge>
    );
  return <Badge tone="bad">{state}</Badge>;
}
