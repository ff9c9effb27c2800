// The frame around every page: navigation, connection, the page itself, and what lies above it.

import { useEffect, useErrorBoundary, useRef } from "preact/hooks";
import { cluster } from "./lib/cluster";
import { consoleInfo } from "./lib/console_info";
import { href, path } from "./lib/router";
import { HOME, PAGES, type PageEntry } from "./pages";
import { ConnectionBanner } from "./ui/Banner";
import { Navigation } from "./ui/Navigation";
import { Notices } from "./ui/Notices";
import { Page } from "./ui/Page";
import { ConfirmHost } from "./ui/confirm";
import { Empty, ErrorState } from "./ui/states";

export function App() {
  const [name = HOME, ...rest] = path.value;
  const page = PAGES.find((each) => each.name === name);
  // Wherever the user is, the connection is watched.
  useEffect(() => cluster.start(), []);
  useEffect(() => consoleInfo.start(), []);
  return (
    <>
      <a class="skip-link" href="#main" onClick={skipToMain}>
        Skip to the page
      </a>
      <Navigation pages={PAGES} current={name} />
      <div class="content">
        <ConnectionBanner />
        <Main page={page} rest={rest} />
      </div>
      <Notices />
      <ConfirmHost />
    </>
  );
}

/** `#main` would be a place of the router's. */
function skipToMain(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function Main({ page, rest }: { page: PageEntry | undefined; rest: string[] }) {
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  // Another page begins at its top, and a screen reader with it; the first one is read anyway.
  useEffect(() => {
    if (isFirst.current) {
      isFirst.current = false;
      return;
    }
    scrollTo(0, 0);
    main.current?.focus({ preventScroll: true });
  }, [page]);
  return (
    <main id="main" tabIndex={-1} ref={main}>
      {page === undefined ? <NotFound /> : <Guarded key={page.name} page={page} rest={rest} />}
    </main>
  );
}

/** A mistake in one page leaves the others usable. */
function Guarded({ page, rest }: { page: PageEntry; rest: string[] }) {
  const [error, reset] = useErrorBoundary();
  if (error !== undefined) return <ErrorState error={error} retry={reset} />;
  const Component = page.component;
  return <Component path={rest} />;
}

function NotFound() {
  return (
    <Page name="unknown" title="There is no such page">
      <Empty title="The address leads nowhere" icon="search">
        <p>
          <a href={href(HOME)}>Go to the overview</a>
        </p>
      </Empty>
    </Page>
  );
}
