// A place to drop a file, or to choose one with a button or a key.

import { useId, useState } from "preact/hooks";
import { bytes } from "../../lib/format";
import { Icon } from "../../ui/Icon";
import type { Chosen, ChosenFiles } from "./use_files";
import type { FileName } from "./wire";

const TEXTS: Record<FileName, { title: string; columns: string }> = {
  airports: { title: "Airports", columns: "CSV with semicolons: Airport Code; Latitude; Longitude" },
  itineraries: { title: "Itineraries", columns: "CSV with commas: legId, startingAirport, totalFare …" },
};

export function FilePickers({ files, wanted }: { files: ChosenFiles; wanted: readonly FileName[] }) {
  return (
    <div class="file-pickers">
      {wanted.map((name) => (
        <FilePicker
          key={name}
          name={name}
          chosen={files.chosen[name]}
          onFiles={(found) => files.choose(found, name)}
        />
      ))}
    </div>
  );
}

interface Props {
  name: FileName;
  chosen: Chosen | undefined;
  onFiles: (files: File[]) => void;
}

function FilePicker({ name, chosen, onFiles }: Props) {
  const noteId = useId();
  const [isOver, setOver] = useState(false);
  const problem = chosen?.problem ?? null;
  const look = isOver ? "is-over" : problem !== null ? "is-wrong" : chosen !== undefined ? "is-chosen" : "";
  return (
    <div>
      <label
        class={`file-picker ${look}`}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          setOver(false);
          const dropped = [...(event.dataTransfer?.files ?? [])];
          if (dropped.length > 0) onFiles(dropped);
        }}
      >
        <Icon name={problem !== null ? "warning" : chosen !== undefined ? "check" : "file"} size={22} />
        <span class="file-text">
          <strong>{TEXTS[name].title}</strong>
          <span class="file-name">
            {chosen === undefined
              ? "Drop a file, or choose one"
              : `${chosen.file.name}, ${bytes(chosen.file.size)}`}
          </span>
        </span>
        <input
          type="file"
          accept=".csv,.txt,text/csv,text/plain"
          data-testid={`file-${name}`}
          aria-invalid={problem !== null}
          aria-describedby={noteId}
          onChange={(event) => {
            onFiles([...(event.currentTarget.files ?? [])]);
            // The same file, mended, may be chosen again.
            event.currentTarget.value = "";
          }}
        />
      </label>
      <p
        id={noteId}
        class={problem !== null ? "field-problem" : "field-help"}
        role={problem !== null ? "alert" : undefined}
        data-testid={problem !== null ? `problem-${name}` : undefined}
      >
        {problem ?? TEXTS[name].columns}
      </p>
    </div>
  );
}
