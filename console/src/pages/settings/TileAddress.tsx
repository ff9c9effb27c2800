import { useState } from "preact/hooks";
import { notify } from "../../lib/notices";
import { tileUrl, tileUrlProblem } from "../../lib/tiles";
import { Button } from "../../ui/Button";
import { Field } from "../../ui/Field";
import { Card } from "../../ui/Page";

export function TileAddress() {
  const [draft, setDraft] = useState(tileUrl.value);
  const problem = tileUrlProblem(draft.trim());
  const save = (url: string): void => {
    tileUrl.value = url;
    setDraft(url);
    notify(url === "" ? "The map draws streets only." : "The map uses these tiles.");
  };
  return (
    <Card title="Map tiles">
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          if (problem === null) save(draft.trim());
        }}
      >
        <Field
          label="Address of raster tiles"
          value={draft}
          onValue={setDraft}
          problem={problem}
          data-testid="tile-url"
          placeholder="https://tiles.example/{z}/{x}/{y}.png"
          inputMode="url"
          help="Empty: the map draws its own streets, and nothing is loaded from elsewhere."
        />
        <div class="row">
          <Button type="submit" look="primary" disabled={problem !== null || draft.trim() === tileUrl.value}>
            Save
          </Button>
          {tileUrl.value !== "" && <Button onClick={() => save("")}>Use none</Button>}
        </div>
      </form>
    </Card>
  );
}
