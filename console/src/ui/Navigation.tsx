// Where one can go. On a narrow screen it folds behind a button.

import { useEffect, useState } from "preact/hooks";
import { cluster, healthOf } from "../lib/cluster";
import { connection } from "../lib/connection";
import { href, path } from "../lib/router";
import { THEMES, theme, type Theme } from "../lib/theme";
import type { PageEntry } from "../pages";
import { Button } from "./Button";
import { Icon, type IconName } from "./Icon";

export function Navigation({ pages, current }: { pages: readonly PageEntry[]; current: string }) {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => path.subscribe(() => setOpen(false)), []);
  useEffect(() => {
    if (!isOpen) return;
    const close = (event: KeyboardEvent): void => {
      if (event.key === "Escape") setOpen(false);
    };
    addEventListener("keydown", close);
    return () => removeEventListener("keydown", close);
  }, [isOpen]);
  return (
    <header class="side">
      <div class="side-frame">
        <div class="side-head">
          <a class="brand" href={href("overview")}>
            <Mark />
            <span>Penstock</span>
          </a>
          <span class="side-status-narrow">
            <Status />
          </span>
          <span class="side-toggle">
            <Button
              look="quiet"
              icon={isOpen ? "close" : "menu"}
              aria-expanded={isOpen}
              aria-controls="navigation"
              aria-label="Menu"
              onClick={() => setOpen(!isOpen)}
            />
          </span>
        </div>
        <div id="navigation" class={isOpen ? "side-body side-open" : "side-body"}>
          <nav aria-label="Pages">
            <ul>
              {pages.map((page) => (
                <li key={page.name}>
                  <a
                    href={href(page.name)}
                    data-testid={`nav-${page.name}`}
                    class="nav-link"
                    aria-current={page.name === current ? "page" : undefined}
                  >
                    <Icon name={page.icon} />
                    {page.title}
                  </a>
                </li>
              ))}
            </ul>
          </nav>
          <div class="side-foot">
            <span class="side-status-wide">
              <Status />
            </span>
            <ThemeButton />
          </div>
        </div>
      </div>
    </header>
  );
}

function Mark() {
  return (
    <svg width="26" height="26" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="7" class="mark-ground" />
      <path
        d="M8 26V9h8.5a6 6 0 0 1 0 12H14"
        fill="none"
        class="mark-line"
        stroke-width="4"
        stroke-linejoin="round"
        stroke-linecap="round"
      />
    </svg>
  );
}

/** The cluster in three words, wherever one is. */
function Status() {
  const { kind } = connection.value;
  const { data } = cluster.state.value;
  if (kind === "connecting") return <span class="status status-plain">Connecting…</span>;
  if (kind === "refused") return <span class="status status-warn">Token needed</span>;
  if (kind !== "connected" || data === null) return <span class="status status-bad">Disconnected</span>;
  const health = healthOf(data);
  const isWell = health.underReplicated === 0 && health.brokersRunning === health.brokers;
  if (isWell) return <span class="status status-good">Healthy</span>;
  return <span class="status status-warn">Degraded</span>;
}

const THEME_ICONS: Record<Theme, IconName> = { system: "system", light: "sun", dark: "moon" };

function ThemeButton() {
  const chosen: Theme = THEMES.find((each) => each === theme.value) ?? "system";
  const next = THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length] ?? "system";
  return (
    <Button
      look="quiet"
      small
      icon={THEME_ICONS[chosen]}
      title={`Theme: ${chosen}`}
      aria-label={`Theme: ${chosen}. Change to ${next}`}
      onClick={() => (theme.value = next)}
    />
  );
}
