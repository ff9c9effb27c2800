// A partition as it grows. However fast it does, the page is drawn a few times a second, and holds the last
// messages only.

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../../lib/failure";
import { count, plural } from "../../lib/format";
import { followStream, type StreamState } from "../../lib/stream";
import { Empty, ErrorState } from "../../ui/states";
import { MessageList } from "./MessageList";
import { FOLLOWED_MAX, Tail, eventsPath, type Message } from "./message_log";

const DRAW_MS = 300;

export function Followed({ topic, partition }: { topic: string; partition: number }) {
  const tail = useRef(new Tail(FOLLOWED_MAX));
  const [messages, setMessages] = useState<readonly Message[]>([]);
  const [state, setState] = useState<StreamState>({ kind: "connecting" });
  useEffect(() => {
    let drawn = 0;
    const timer = setInterval(() => {
      if (tail.current.seen === drawn) return;
      drawn = tail.current.seen;
      setMessages(tail.current.latest());
    }, DRAW_MS);
    const stop = followStream(eventsPath(topic, partition, "end"), {
      onEvent: (event) => {
        if (event.name === "message") tail.current.push(event.data);
      },
      onState: setState,
      // A topic that is gone does not come back by itself.
      isFinal: (failure) => failure instanceof ApiError && failure.status === 404,
    });
    return () => {
      clearInterval(timer);
      stop();
    };
  }, [topic, partition]);

  if (state.kind === "ended") return <ErrorState error={state.failure} />;
  const seen = tail.current.seen;
  return (
    <div data-testid="followed">
      <p class="message-range">
        <span class={`status status-${state.kind === "open" ? "good" : "warn"}`} role="status">
          {stateText(state)}
        </span>
        <span class="muted">
          {" "}
          {plural(seen, "message")} since you follow
          {seen > FOLLOWED_MAX && `; the last ${count(FOLLOWED_MAX)} are kept`}
        </span>
      </p>
      {messages.length === 0 ? (
        <Empty title="Nothing has come yet" icon="clock">
          <p>New messages appear here by themselves.</p>
        </Empty>
      ) : (
        <MessageList messages={messages} />
      )}
    </div>
  );
}

function stateText(state: StreamState): string {
  if (state.kind === "open") return "Following";
  return state.kind === "connecting" ? "Connecting" : "Disconnected, connecting again by itself";
}
