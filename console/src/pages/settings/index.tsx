// What this browser remembers, and what this gateway is.

import type { PageProps } from "../../ui/LazyPage";
import { Page } from "../../ui/Page";
import { About } from "./About";
import { ThemeChoice } from "./ThemeChoice";
import { TileAddress } from "./TileAddress";
import { TokenForm } from "./TokenForm";
import "./settings.css";

export function SettingsPage(_: PageProps) {
  return (
    <Page name="settings" title="Settings" lead="They are kept in this browser only.">
      <div class="settings">
        <ThemeChoice />
        <TokenForm />
        <TileAddress />
        <About />
      </div>
    </Page>
  );
}
