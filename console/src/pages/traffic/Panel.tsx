// The figures beside the map: how much, how fast, how far behind, and what became of every position.

import { now } from "../../lib/clock";
import { count, rate, time, words } from "../../lib/format";
import { href } from "../../lib/router";
import { Badge } from "../../ui/Badge";
import { Card } from "../../ui/Page";
import { Sparkline } from "../../ui/Sparkline";
import { behindMs, type ClockBounds } from "./clock";
import type { Figures } from "./feed";
import { topicOf } from "./grid";
import type { QuadrantActivity } from "./quadrants";
import type { Totals } from "./wire";

/** Beyond this the map is not as live as it should be. */
const BEHIND_MS_GOOD = 2_000;
/** Of a map with many quadrants, those that are dark or busy are listed. */
const QUADRANTS_MAX = 16;

export function KeyFigures({ figures, clock }: { figures: Figures; clock: ClockBounds }) {
  const { newest } = figures.heat;
  const behind = newest === null ? null : behindMs(newest, Math.max(now.value, Date.now()), clock);
  const tone = behind !== null && behind > BEHIND_MS_GOOD ? "tone-warn" : "";
  return (
    <Card class="traffic-figures">
      <dl>
        <Figure name="Positions" value={rate(figures.rate)} testid="traffic-rate" />
        <Figure
          name="Mean speed"
          value={figures.speed === null ? "–" : `${Math.round(figures.speed)} km/h`}
          testid="traffic-speed"
        />
        <Figure
          name="Behind"
          value={behind === null ? "–" : `${(behind / 1000).toFixed(1)} s`}
          tone={tone}
          testid="traffic-behind"
        />
      </dl>
      <Sparkline
        values={figures.history}
        label={`Positions per second over the last updates, now ${rate(figures.rate)}`}
      />
    </Card>
  );
}

function Figure({
  name,
  value,
  testid,
  tone = "",
}: {
  name: string;
  value: string;
  testid: string;
  tone?: string;
}) {
  return (
    <div class="figure">
      <dt class="figure-name">{name}</dt>
      <dd class={`figure-value ${tone}`} data-testid={testid}>
        {value}
      </dd>
    </div>
  );
}

export function QuadrantList({ quadrants }: { quadrants: readonly QuadrantActivity[] }) {
  const dark = quadrants.filter((each) => each.dark);
  const shown = quadrants.length > QUADRANTS_MAX ? mostTelling(quadrants) : quadrants;
  return (
    <Card
      title="Quadrants"
      aside={dark.length > 0 ? <Badge tone="warn">{`${dark.length} dark`}</Badge> : undefined}
    >
      <ul class="quadrant-list">
        {shown.map((each) => (
          <QuadrantItem key={each.quadrant.name} activity={each} />
        ))}
      </ul>
      {shown.length < quadrants.length && (
        <p class="muted">{quadrants.length - shown.length} more are not listed.</p>
      )}
    </Card>
  );
}

function mostTelling(quadrants: readonly QuadrantActivity[]): readonly QuadrantActivity[] {
  return [...quadrants]
    .sort((one, other) => Number(other.dark) - Number(one.dark) || other.rate - one.rate)
    .slice(0, QUADRANTS_MAX);
}

function QuadrantItem({ activity }: { activity: QuadrantActivity }) {
  const { quadrant, dark, lastAt } = activity;
  return (
    <li class={dark ? "is-dark" : ""} data-testid={`quadrant-${quadrant.name}`} data-dark={dark}>
      <a href={href("topics", topicOf(quadrant))} title={`Topic ${topicOf(quadrant)}`}>
        {quadrant.name}
      </a>
      {dark ? (
        <span class="quadrant-note">
          Dark: no positions {lastAt === null ? "seen" : `since ${time(lastAt)}`}
        </span>
      ) : (
        <span class="quadrant-rate">{rate(activity.rate)}</span>
      )}
      <Sparkline
        values={activity.history}
        label={`Activity of ${quadrant.name}, now ${rate(activity.rate)}`}
        height={24}
      />
    </li>
  );
}

export function TotalsCard({ totals }: { totals: Totals }) {
  const reasons = Object.entries(totals.reasons).filter(([, number]) => number > 0);
  return (
    <Card title="Every position so far" testid="traffic-totals">
      <dl class="totals">
        <Total name="Sent" value={totals.sent} />
        <Total name="Counted" value={totals.counted} />
        <Total name="Late" value={totals.late} />
        <Total name="Duplicate" value={totals.duplicate} />
        <Total name="Malformed" value={totals.malformed} />
        {reasons.map(([reason, number]) => (
          <Total key={reason} name={words(reason)} value={number} isPart />
        ))}
      </dl>
    </Card>
  );
}

function Total({ name, value, isPart = false }: { name: string; value: number; isPart?: boolean }) {
  return (
    <div class={isPart ? "is-part" : ""}>
      <dt>{name}</dt>
      <dd data-testid={`total-${name.toLowerCase()}`}>{count(value)}</dd>
    </div>
  );
}
