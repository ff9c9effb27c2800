// Where the user is: the part of the address behind `#`. The gateway never sees it.

import { signal } from "@preact/signals";

/** `#/topics/a%20b` is ["topics", "a b"]; what can not be decoded stays as it is. */
export function parseHash(hash: string): string[] {
  const path = hash.replace(/^#\/?/, "").split("?")[0] ?? "";
  return path
    .split("/")
    .filter((part) => part !== "")
    .map(decode);
}

/** The address of a place: href("topics", "a b") is `#/topics/a%20b`. */
export function href(...parts: string[]): string {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

/** The place now. */
export const path = signal<string[]>([]);

export function navigate(...parts: string[]): void {
  location.hash = href(...parts);
}

/** Once, when the page starts. */
export function followAddress(): void {
  const follow = (): void => {
    path.value = parseHash(location.hash);
  };
  follow();
  addEventListener("hashchange", follow);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // typed by hand, with a stray `%`
  }
}
