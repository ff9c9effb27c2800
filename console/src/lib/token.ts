// The token that requests carry. It is gone with the tab: a token is not for the next user of this machine.

import { stored } from "./storage";

export const token = stored("penstock.token", () => sessionStorage);
