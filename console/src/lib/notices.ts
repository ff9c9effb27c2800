// Short messages about what the user has just done.

import { signal } from "@preact/signals";
import { messageOf } from "./failure";

export interface Notice {
  id: number;
  tone: "good" | "bad";
  text: string;
}

const SHOWN_MS = { good: 5_000, bad: 12_000 } as const;
const SHOWN_MAX = 4;

export const notices = signal<Notice[]>([]);
let nextId = 1;

export function notify(text: string, tone: Notice["tone"] = "good"): void {
  const notice = { id: nextId++, tone, text };
  notices.value = [...notices.value, notice].slice(-SHOWN_MAX);
  setTimeout(() => dismiss(notice.id), SHOWN_MS[tone]);
}

export function notifyFailure(error: unknown): void {
  notify(messageOf(error), "bad");
}

export function dismiss(id: number): void {
  notices.value = notices.value.filter((notice) => notice.id !== id);
}
