// Messages, one below the other: where and when, then key, headers and value.

import { Component } from "preact";
import { useMemo, useState } from "preact/hooks";
import { count, dateTime, plural } from "../../lib/format";
import { Button } from "../../ui/Button";
import type { Header, Message } from "./message_log";
import { payloadOf, shownText, type Payload } from "./payload";

export function MessageList({ messages }: { messages: readonly Message[] }) {
  return (
    <ol class="message-list" tabIndex={0} aria-label="Messages, newest first">
      {messages.map((message) => (
        <Item key={`${message.partition}:${message.offset}`} message={message} />
      ))}
    </ol>
  );
}

/** A message never changes, so what was drawn once stays while others come in. */
class Item extends Component<{ message: Message }> {
  override shouldComponentUpdate(): boolean {
    return false;
  }

  override render() {
    const { message } = this.props;
    return (
      <li class="log-message" data-testid={`message-${message.partition}-${message.offset}`}>
        <p class="message-head">
          <strong>{count(message.offset)}</strong>
          <time dateTime={isoTime(message.timestamp)}>
            {message.timestamp < 0 ? "no time" : dateTime(message.timestamp)}
          </time>
        </p>
        <dl>
          <Part name="Key" payload={payloadOf(message.key, message.key_base64)} />
          {(message.headers ?? []).map((header, index) => (
            <HeaderPart key={index} header={header} />
          ))}
          <Part name="Value" payload={payloadOf(message.value, message.value_base64)} />
        </dl>
      </li>
    );
  }
}

function HeaderPart({ header }: { header: Header }) {
  return <Part name={header.name} isHeader payload={payloadOf(header.value, header.value_base64)} />;
}

function Part({ name, payload, isHeader = false }: { name: string; payload: Payload; isHeader?: boolean }) {
  if (payload.kind === "none" && name === "Key" && !isHeader) return null;
  return (
    <div class={isHeader ? "message-part is-header" : "message-part"}>
      <dt>
        {isHeader && <span class="visually-hidden">Header </span>}
        {name}
      </dt>
      <dd>{payload.kind === "none" ? <em class="muted">null</em> : <Text payload={payload} />}</dd>
    </div>
  );
}

function Text({ payload }: { payload: Exclude<Payload, { kind: "none" }> }) {
  const [isWhole, setWhole] = useState(false);
  const { text, isCut } = useMemo(() => shownText(payload, isWhole), [payload, isWhole]);
  const size =
    payload.kind === "bytes"
      ? plural(payload.bytes.length, "byte")
      : plural(payload.text.length, "character");
  return (
    <>
      {payload.kind === "bytes" && <small class="muted">{size}, not text</small>}
      {text === "" ? <em class="muted">empty</em> : <Written kind={payload.kind} text={text} />}
      {(isCut || isWhole) && (
        <Button small look="quiet" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)}>
          {isWhole ? "Show less" : `Show all ${size}`}
        </Button>
      )}
    </>
  );
}

function Written({ kind, text }: { kind: "text" | "json" | "bytes"; text: string }) {
  if (kind !== "bytes") return <pre class="payload">{text}</pre>;
  // Bytes do not wrap, so they scroll, and so they can be focused.
  return (
    <pre class="payload payload-bytes" tabIndex={0} role="group" aria-label="Bytes">
      {text}
    </pre>
  );
}

function isoTime(ms: number): string | undefined {
  const time = new Date(ms);
  return Number.isNaN(time.getTime()) ? undefined : time.toISOString();
}
