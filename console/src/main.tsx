import "./styles.css"; // first: what pages bring has the last word
import { render } from "preact";
import { App } from "./App";
import { startClock } from "./lib/clock";
import { notifyFailure } from "./lib/notices";
import { followAddress } from "./lib/router";
import { followTheme } from "./lib/theme";

// A mistake of the console's own is shown, not only written where nobody looks.
addEventListener("unhandledrejection", (event) => notifyFailure(event.reason));
addEventListener("error", (event) => notifyFailure(event.error ?? event.message));

followTheme();
followAddress();
startClock();

const root = document.getElementById("app");
if (root !== null) render(<App />, root);
