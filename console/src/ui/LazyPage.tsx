// A page whose code comes when it is first wanted.

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { connection } from "../lib/connection";
import { ErrorState, Loading } from "./states";

export interface PageProps {
  /** Behind the page's own name: ["orders"] of `#/topics/orders`. */
  path: string[];
}

export type PageComponent = ComponentType<PageProps>;

export function lazyPage(load: () => Promise<PageComponent>): PageComponent {
  let loaded: PageComponent | null = null;
  return function LazyPage(props: PageProps) {
    const [, setLoads] = useState(0);
    const [error, setError] = useState<unknown>(null);
    useEffect(() => {
      if (loaded !== null) return;
      load().then((component) => {
        loaded = component;
        setLoads((loads) => loads + 1);
      }, setError);
    }, []);
    if (loaded !== null) {
      const Loaded = loaded;
      return <Loaded {...props} />;
    }
    return error === null ? <Loading /> : <NotLoaded error={error} />;
  };
}

/** Browsers remember that a module failed, and another gateway may have others: only a reload helps. */
function NotLoaded({ error }: { error: unknown }) {
  useEffect(() => {
    let wasAway = false;
    return connection.subscribe(({ kind }) => {
      if (kind === "connected" && wasAway) location.reload();
      wasAway ||= kind !== "connected";
    });
  }, []);
  return <ErrorState error={error} retry={() => location.reload()} />;
}
