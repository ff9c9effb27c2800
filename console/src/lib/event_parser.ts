// Server-Sent Events: text in, whole events out, wherever the network cut the text. Pure.

export interface ServerEvent {
  /** `message` unless the server named it. */
  name: string;
  data: string;
  /** The last id that the server sent, with this event or before. */
  id: string;
}

export class EventParser {
  #rest = "";
  #name = "";
  #data: string[] = [];
  #id = "";
  /** How long the server asks to wait before connecting again, if it did. */
  retryMs: number | null = null;

  get lastId(): string {
    return this.#id;
  }

  /** What a break in the connection left half finished is dropped; the last id is kept. */
  reset(): void {
    this.#rest = "";
    this.#name = "";
    this.#data = [];
  }

  push(text: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    // A `\r` at the very end may be half of a `\r\n`: the pattern leaves it in the rest.
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      const event = this.#line(line);
      if (event !== null) events.push(event);
    }
    return events;
  }

  #line(line: string): ServerEvent | null {
    if (line === "") return this.#dispatch();
    if (line.startsWith(":")) return null; // a comment, such as a heartbeat
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#name = value;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    else if (field === "retry" && /^\d+$/.test(value)) this.retryMs = Number(value);
    return null;
  }

  #dispatch(): ServerEvent | null {
    const event = { name: this.#name || "message", data: this.#data.join("\n"), id: this.#id };
    const isEmpty = this.#data.length === 0;
    this.#name = "";
    this.#data = [];
    return isEmpty ? null : event;
  }
}
