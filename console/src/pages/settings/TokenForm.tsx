import { useState } from "preact/hooks";
import { cluster } from "../../lib/cluster";
import { connection } from "../../lib/connection";
import { consoleInfo } from "../../lib/console_info";
import { notify } from "../../lib/notices";
import { token } from "../../lib/token";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Field } from "../../ui/Field";
import { Card } from "../../ui/Page";

export function TokenForm() {
  const [draft, setDraft] = useState("");
  const use = (value: string): void => {
    token.value = value;
    setDraft("");
    notify(value === "" ? "The token is forgotten." : "The token is used from now on.");
    cluster.refresh();
    consoleInfo.refresh();
  };
  return (
    <Card title="Token" aside={<TokenState />}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          if (draft.trim() !== "") use(draft.trim());
        }}
      >
        <Field
          label="Bearer token"
          type="password"
          value={draft}
          onValue={setDraft}
          data-testid="token"
          placeholder={token.value === "" ? "" : "a token is set"}
          help="For gateways that ask for one. It is forgotten when this tab is closed."
        />
        <div class="row">
          <Button type="submit" look="primary" disabled={draft.trim() === ""}>
            Use this token
          </Button>
          {token.value !== "" && <Button onClick={() => use("")}>Forget it</Button>}
        </div>
      </form>
    </Card>
  );
}

function TokenState() {
  const asked = consoleInfo.state.value.data?.auth;
  if (connection.value.kind === "refused") return <Badge tone="warn">{connection.value.message}</Badge>;
  if (token.value !== "") return <Badge tone="good">set</Badge>;
  return asked === false ? <Badge>not needed here</Badge> : null;
}
