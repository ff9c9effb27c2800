// MapLibre, loaded when a map is first wanted: it is larger than the rest of the console together.

import type * as MapLibre from "maplibre-gl";
import workerUrl from "maplibre-gl/dist/maplibre-gl-worker.mjs?url";

let loading: Promise<typeof MapLibre> | undefined;

export function loadMapLibre(): Promise<typeof MapLibre> {
  loading ??= load().catch((error: unknown) => {
    loading = undefined; // the gateway was away; the next one may be luckier
    throw error;
  });
  return loading;
}

async function load(): Promise<typeof MapLibre> {
  const [maplibre] = await Promise.all([import("maplibre-gl"), import("maplibre-gl/dist/maplibre-gl.css")]);
  // Bundled, it does not find its worker by itself.
  maplibre.setWorkerUrl(workerUrl);
  return maplibre;
}
