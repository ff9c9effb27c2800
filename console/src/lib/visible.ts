// Whether somebody can see the page. Nothing is asked for a page that nobody sees.

import { signal } from "@preact/signals";

const hasDocument = typeof document !== "undefined";

export const visible = signal(!hasDocument || document.visibilityState !== "hidden");

if (hasDocument) {
  document.addEventListener("visibilitychange", () => {
    visible.value = document.visibilityState !== "hidden";
  });
}
