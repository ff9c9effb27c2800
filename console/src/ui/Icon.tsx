// Small drawings beside words; never instead of them.

const DRAWINGS = {
  overview: "M3 13h6V3H3zm8 8h6V11h-6zM3 21h6v-4H3zM11 3v4h6V3z",
  traffic:
    "M5 17H3v-5l2-5a2 2 0 0 1 1.8-1.2h10.4A2 2 0 0 1 19 7l2 5v5h-2M3.5 12h17M9 17h6M5 17a2 2 0 1 0 4 0 2 2 0 1 0-4 0zM15 17a2 2 0 1 0 4 0 2 2 0 1 0-4 0z",
  cluster:
    "M12 9a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM6 21a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM18 21a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM10.5 8.7l-3 6.6M13.5 8.7l3 6.6M9 18h6",
  topics: "M4 6h16M4 12h16M4 18h10",
  groups:
    "M9 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zm-6 8a6 6 0 0 1 12 0M16 5.5a3 3 0 0 1 0 5.5m2 2.6A6 6 0 0 1 21 19",
  flights: "M3 13l8-1 6-7 2 .5-3 7 5 1.5-1 1.5-6 .5-4 4-1.5-.5 1.5-4.5-5 .5z",
  settings:
    "M12 15a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM12 3v3m0 12v3M3 12h3m12 0h3M5.6 5.6l2.1 2.1m8.6 8.6l2.1 2.1m0-12.8l-2.1 2.1m-8.6 8.6l-2.1 2.1",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 2v3m0 14v3M2 12h3m14 0h3M5 5l2 2m10 10l2 2M19 5l-2 2M7 17l-2 2",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8 8 0 1 0 10.5 10.5z",
  system: "M4 5h16v11H4zM9 20h6m-3-4v4",
  check: "M5 12.5l4.5 4.5L19 7.5",
  warning: "M12 4l9 16H3zm0 6v5m0 2.5v.01",
  cross: "M7 7l10 10M17 7L7 17",
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zm0-14v5l3.5 2",
  pause: "M8 5v14M16 5v14",
  play: "M7 5l12 7-12 7z",
  bolt: "M13 3L5 14h6l-1 7 8-11h-6z",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  arrow: "M5 12h14m-6-6l6 6-6 6",
  crown: "M4 18h16M4 18L3 8l5 4 4-7 4 7 5-4-1 10",
  refresh: "M20 11a8 8 0 1 0-2 6m2-11v5h-5",
  plug: "M9 3v5m6-5v5M6 8h12v3a6 6 0 0 1-12 0zm6 9v4",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zm5-2l4 4",
  plus: "M12 5v14M5 12h14",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  download: "M12 4v11m-5-5l5 5 5-5M5 20h14",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13",
} as const;

export type IconName = keyof typeof DRAWINGS;

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg
      class="icon"
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      stroke-width="1.8"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      <path d={DRAWINGS[name]} />
    </svg>
  );
}
