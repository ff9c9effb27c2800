// Messages of a partition, page by page or as they come. Pure but for the paths.

export interface Header {
  readonly name: string;
  readonly value: string | null;
  readonly value_base64?: string;
}

export interface Message {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly timestamp: number;
  readonly key: string | null;
  readonly value: string | null;
  readonly key_base64?: string;
  readonly value_base64?: string;
  readonly headers?: readonly Header[];
}

/** `GET /v1/topics/{topic}/messages`. */
export interface MessagePage {
  readonly topic: string;
  readonly partition: number;
  readonly start: number;
  readonly end: number;
  readonly next_offset: number;
  readonly messages: readonly Message[];
}

export type Start = number | "beginning" | "end";

export const PAGE_MESSAGES = 50;
export const FOLLOWED_MAX = 200;

export function topicPath(topic: string): string {
  return `/v1/topics/${encodeURIComponent(topic)}`;
}

export function pagePath(topic: string, partition: number, start: Start): string {
  return `${topicPath(topic)}/messages?partition=${partition}&offset=${start}&limit=${PAGE_MESSAGES}`;
}

/** Of one partition from an offset on, or of all from now on. */
export function eventsPath(topic: string, partition: number | null, from: Start): string {
  const part = partition === null ? "" : `&partition=${partition}`;
  return `${topicPath(topic)}/events?offset=${from}${part}`;
}

/** Where the page before begins; null at the beginning of the log. */
export function olderStart(page: MessagePage): number | null {
  const first = page.messages[0]?.offset ?? page.next_offset;
  return first > page.start ? Math.max(page.start, first - PAGE_MESSAGES) : null;
}

/** Where the page after begins; null at the end. */
export function newerStart(page: MessagePage): number | null {
  return page.next_offset < page.end ? page.next_offset : null;
}

/** A number of digits, or what is wrong with it. */
export function parseOffset(text: string): number | string {
  if (!/^\d{1,15}$/.test(text.trim())) return "An offset is a number from 0 on.";
  return Number(text);
}

/**
 * The last that came, bounded however fast they come. They are kept as the text that they are on the wire: of a
 * thousand in a second, only those that are shown in the end are worth parsing.
 */
export class Tail {
  readonly #most: number;
  #texts: string[] = [];
  #seen = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** How many came, shown or not. */
  get seen(): number {
    return this.#seen;
  }

  push(text: string): void {
    this.#seen += 1;
    this.#texts.push(text);
    if (this.#texts.length > 2 * this.#most) this.#texts = this.#texts.slice(-this.#most);
  }

  /** Those that came last, the newest first; what is not a message is left out. */
  latest(): Message[] {
    this.#texts = this.#texts.slice(-this.#most);
    return this.#texts
      .map(parseMessage)
      .filter((message) => message !== null)
      .reverse();
  }
}

export function parseMessage(text: string): Message | null {
  try {
    const told: unknown = JSON.parse(text);
    const isMessage = typeof told === "object" && told !== null && "offset" in told && "partition" in told;
    return isMessage ? (told as Message) : null;
  } catch {
    return null;
  }
}
