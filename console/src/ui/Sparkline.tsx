// A line of the last minute or so. The number beside it says the same in words.

interface Props {
  values: readonly number[];
  /** For screen readers. */
  label: string;
  width?: number;
  height?: number;
  /** As many values as the width has room for; fewer begin at the right. */
  slots?: number;
}

export function Sparkline({ values, label, width = 120, height = 28, slots = 60 }: Props) {
  const shown = values.slice(-slots);
  const top = Math.max(1, ...shown);
  const step = width / Math.max(1, slots - 1);
  const left = width - step * Math.max(0, shown.length - 1);
  const points = shown.map(
    (value, index) => `${round(left + index * step)},${round(height - 2 - (value / top) * (height - 4))}`,
  );
  return (
    <svg
      class="sparkline"
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <line x1="0" y1={height - 1} x2={width} y2={height - 1} class="sparkline-floor" />
      {points.length > 1 && (
        <>
          <path
            class="sparkline-area"
            d={`M${round(left)},${height - 1} L${points.join(" L")} L${width},${height - 1} Z`}
          />
          <polyline class="sparkline-line" points={points.join(" ")} />
        </>
      )}
    </svg>
  );
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
