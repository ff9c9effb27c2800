import { defineConfig } from "vitest/config";

// The gateway that `npm run dev` shows.
const gateway = process.env["PENSTOCK_HTTP"] ?? "http://127.0.0.1:8080";

export default defineConfig({
  // The gateway serves index.html at `/` and everything else below `/console/`.
  base: "/console/",
  build: {
    outDir: "../src/penstock/gateway/console/assets",
    emptyOutDir: true,
    target: "es2022",
    // A data: URL would need a hole in the gateway's Content-Security-Policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // What is packed in here keeps its authors' terms beside it.
    license: { fileName: "licenses.txt" },
    // MapLibre alone is larger than the usual limit; only the Traffic page loads it.
    chunkSizeWarningLimit: 1500,
  },
  server: {
    proxy: {
      "/v1": {
        target: gateway,
        changeOrigin: true,
        // The gateway refuses what pages of other origins send, and in development the page is one.
        headers: { origin: gateway },
      },
    },
  },
  test: { include: ["tests/**/*.test.ts", "src/**/*.test.ts"], environment: "node" },
});
