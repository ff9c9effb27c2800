// Lines of the cluster log. New ones are read out; the first lot, which is history, is not.

import { useEffect, useRef, useState } from "preact/hooks";
import { now } from "../lib/clock";
import { ago, dateTime, time, words } from "../lib/format";
import type { Category, Entry } from "../lib/timeline";
import { Icon, type IconName } from "./Icon";

const ICONS: Record<Category, IconName> = {
  election: "crown",
  "in-sync": "copy",
  process: "bolt",
  topic: "topics",
  cluster: "cluster",
};

export function EventList({ entries }: { entries: readonly Entry[] }) {
  return (
    <ol class="events">
      {entries.map((entry) => (
        <li key={entry.key} class={`event event-${entry.tone}`} data-testid={`event-${entry.kind}`}>
          <span class="event-icon" title={words(entry.kind)}>
            <Icon name={ICONS[entry.category]} size={15} />
          </span>
          <div class="event-text">
            <p>{entry.text}</p>
            <p class="event-note">
              <time dateTime={new Date(entry.at).toISOString()} title={dateTime(entry.at)}>
                {time(entry.at)}
              </time>
              {" · "}
              {ago(entry.at, now.value)}
              {entry.cause !== undefined && <> · {entry.cause}</>}
            </p>
          </div>
        </li>
      ))}
    </ol>
  );
}

/** Says what is new since the component appeared, to those who do not see it. */
export function EventAnnouncer({ entries }: { entries: readonly Entry[] }) {
  const heardUntil = useRef<number | null>(null);
  const [text, setText] = useState("");
  const newest = entries[0];
  useEffect(() => {
    if (newest === undefined) return;
    if (heardUntil.current !== null && newest.at > heardUntil.current) setText(newest.text);
    heardUntil.current = newest.at;
  }, [newest?.key]);
  return (
    <p class="visually-hidden" role="status" aria-live="polite">
      {text}
    </p>
  );
}
