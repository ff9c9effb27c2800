import { count } from "../../lib/format";
import { Badge, type Tone } from "../../ui/Badge";
import type { IconName } from "../../ui/Icon";
import type { JobState, QueryProgress } from "./wire";

const LOOKS: Record<JobState, { tone: Tone; icon?: IconName }> = {
  receiving: { tone: "plain", icon: "clock" },
  computing: { tone: "warn", icon: "bolt" },
  complete: { tone: "good" },
  failed: { tone: "bad" },
  deleted: { tone: "plain", icon: "trash" },
};

export function JobBadge({ state }: { state: JobState }) {
  const { tone, icon } = LOOKS[state] ?? { tone: "plain" as const };
  return (
    <Badge tone={tone} {...(icon === undefined ? {} : { icon })}>
      {state}
    </Badge>
  );
}

/** "later", or how many rows there are; more may come, unless the job has failed. */
export function queryText({ state, rows }: QueryProgress, job: JobState): string {
  if (state === "later") return job === "failed" ? "none" : "later";
  if (job === "failed") return count(rows);
  return state === "partial" ? `${count(rows)} so far` : count(rows);
}
