// Light, dark, or what the system says. styles/tokens.css has the colours of both.

import { computed, effect, signal } from "@preact/signals";
import { stored } from "./storage";

export type Theme = "system" | "light" | "dark";
export const THEMES: readonly Theme[] = ["system", "light", "dark"];

/** Read by public/theme.js too, before the first paint. */
export const theme = stored("penstock.theme", () => localStorage, "system");

const systemIsDark = signal(false);

/** What is shown, whoever decided it. The map needs to know: it paints itself. */
export const shownTheme = computed<"light" | "dark">(() => {
  if (theme.value === "light" || theme.value === "dark") return theme.value;
  return systemIsDark.value ? "dark" : "light";
});

/** Once, when the page starts. */
export function followTheme(): void {
  const system = matchMedia("(prefers-color-scheme: dark)");
  systemIsDark.value = system.matches;
  system.addEventListener("change", (event) => {
    systemIsDark.value = event.matches;
  });
  effect(() => {
    const root = document.documentElement;
    if (theme.value === "light" || theme.value === "dark") root.dataset["theme"] = theme.value;
    else delete root.dataset["theme"];
  });
}
