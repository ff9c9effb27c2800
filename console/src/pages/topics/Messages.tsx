// What is in a topic: pages of a partition, or what comes in as it comes.

import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../../lib/api";
import { isAbort } from "../../lib/failure";
import { count } from "../../lib/format";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Page";
import { Empty, ErrorState, Loading } from "../../ui/states";
import { Followed } from "./Followed";
import { MessageList } from "./MessageList";
import type { TopicDetails } from "./TopicDetail";
import { newerStart, olderStart, pagePath, parseOffset, type MessagePage, type Start } from "./message_log";

type Place = "end" | "beginning" | "offset";

/** A number is asked for when it is whole, not digit by digit. */
const TYPING_MS = 350;

interface Props {
  topic: TopicDetails;
  /** How many messages were written from here: whoever looks at the newest wants to see the own one. */
  written: number;
}

export function Messages({ topic, written }: Props) {
  const [partition, setPartition] = useState(0);
  const [place, setPlace] = useState<Place>("end");
  const [typed, setTyped] = useState("0");
  const offset = useSettled(typed, TYPING_MS);
  const [isFollowing, setFollowing] = useState(false);
  const parsed = parseOffset(offset);
  const start: Start | null = place !== "offset" ? place : typeof parsed === "number" ? parsed : null;
  return (
    <Card
      title="Messages"
      testid="messages"
      aside={<FollowToggle isOn={isFollowing} onChange={setFollowing} />}
    >
      <div class="message-controls">
        {topic.partitions.length > 1 && (
          <label class="inline-field">
            Partition
            <select
              value={String(partition)}
              data-testid="message-partition"
              onChange={(event) => setPartition(Number(event.currentTarget.value))}
            >
              {topic.partitions.map((each) => (
                <option key={each.partition} value={String(each.partition)}>
                  {each.partition}
                </option>
              ))}
            </select>
          </label>
        )}
        {!isFollowing && <PlaceChoice place={place} onPlace={setPlace} />}
        {!isFollowing && place === "offset" && (
          <label class="inline-field">
            Offset
            <input
              class="offset-input"
              inputMode="numeric"
              value={typed}
              aria-invalid={typeof parsed === "string"}
              data-testid="message-offset"
              onInput={(event) => setTyped(event.currentTarget.value)}
            />
          </label>
        )}
      </div>
      {isFollowing ? (
        <Followed key={partition} topic={topic.name} partition={partition} />
      ) : start === null ? (
        <p class="field-problem" role="alert">
          {parsed}
        </p>
      ) : (
        <Pages key={`${partition} ${start} ${place === "end" ? written : ""}`} topic={topic.name} partition={partition} first={start} />
      )}
    </Card>
  );
}

/** The value as it was when it last stood still for so long. */
function useSettled(value: string, ms: number): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

function FollowToggle({ isOn, onChange }: { isOn: boolean; onChange: (isOn: boolean) => void }) {
  return (
    <Button
      small
      icon={isOn ? "pause" : "play"}
      aria-pressed={isOn}
      data-testid="follow"
      onClick={() => onChange(!isOn)}
    >
      {isOn ? "Stop following" : "Follow live"}
    </Button>
  );
}

const PLACES: readonly (readonly [Place, string])[] = [
  ["end", "Newest"],
  ["beginning", "Oldest"],
  ["offset", "Offset"],
];

function PlaceChoice({ place, onPlace }: { place: Place; onPlace: (place: Place) => void }) {
  return (
    <fieldset class="segments message-place">
      <legend class="visually-hidden">Where to begin</legend>
      {PLACES.map(([value, text]) => (
        <label key={value}>
          <input
            type="radio"
            name="message-place"
            value={value}
            checked={place === value}
            onChange={() => onPlace(value)}
          />
          {text}
        </label>
      ))}
    </fieldset>
  );
}

function Pages({ topic, partition, first }: { topic: string; partition: number; first: Start }) {
  const [page, setPage] = useState<MessagePage | null>(null);
  const [failure, setFailure] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(true);
  const asking = useRef<AbortController | null>(null);
  const top = useRef<HTMLDivElement>(null);

  const read = async (start: Start): Promise<void> => {
    asking.current?.abort();
    const controller = new AbortController();
    asking.current = controller;
    setBusy(true);
    try {
      const answer = await get<MessagePage>(pagePath(topic, partition, start), controller.signal);
      setPage(answer);
      setFailure(null);
    } catch (error) {
      if (controller.signal.aborted || isAbort(error)) return;
      setFailure(error instanceof Error ? error : new Error(String(error)));
    }
    setBusy(false);
  };
  const turn = (start: Start): void => {
    void read(start).then(() => top.current?.scrollIntoView({ block: "nearest" }));
  };
  useEffect(() => {
    void read(first);
    return () => asking.current?.abort();
  }, [first]);

  if (failure !== null) return <ErrorState error={failure} retry={() => void read(first)} />;
  if (page === null) return <Loading what="Reading messages" />;
  const older = olderStart(page);
  const newer = newerStart(page);
  return (
    <div ref={top} aria-busy={isBusy}>
      <p class="muted message-range" role="status">
        {rangeOf(page)}
      </p>
      {page.messages.length === 0 ? (
        <Nothing page={page} />
      ) : (
        <MessageList messages={[...page.messages].reverse()} />
      )}
      <div class="row message-pages">
        <Button small icon="refresh" busy={isBusy} onClick={() => void read(first)}>
          Read again
        </Button>
        <Button small disabled={older === null || isBusy} onClick={() => older !== null && turn(older)}>
          Older
        </Button>
        <Button small disabled={newer === null || isBusy} onClick={() => newer !== null && turn(newer)}>
          Newer
        </Button>
      </div>
    </div>
  );
}

function Nothing({ page }: { page: MessagePage }) {
  const isEmpty = page.start === page.end;
  return (
    <Empty title={isEmpty ? "This partition has no messages" : "There are no messages here"} icon="topics">
      <p>
        {isEmpty
          ? "Write one below, or follow live and wait for the first."
          : "What was here was compacted away, or is yet to come."}
      </p>
    </Empty>
  );
}

function rangeOf(page: MessagePage): string {
  const [first, last] = [page.messages[0], page.messages.at(-1)];
  if (page.start === page.end) return "";
  const log = `${count(page.start)} to ${count(page.end - 1)}`;
  if (first === undefined || last === undefined) return `The log has offsets ${log}`;
  return `Offsets ${count(first.offset)} to ${count(last.offset)} of ${log}, newest first`;
}
