// Settings of this browser. Storage may be forbidden; then they last as long as the page.

import { signal, type Signal } from "@preact/signals";

/** A signal that remembers its value under `key`; an empty value is forgotten. */
export function stored(key: string, storage: () => Storage, initial = ""): Signal<string> {
  const value = signal(read(key, storage) ?? initial);
  value.subscribe((next) => {
    write(key, next === initial ? "" : next, storage);
  });
  return value;
}

function read(key: string, storage: () => Storage): string | null {
  try {
    return storage().getItem(key);
  } catch {
    return null; // forbidden
  }
}

function write(key: string, value: string, storage: () => Storage): void {
  try {
    if (value === "") storage().removeItem(key);
    else storage().setItem(key, value);
  } catch {
    // Forbidden or full: the value lives on in the signal.
  }
}
