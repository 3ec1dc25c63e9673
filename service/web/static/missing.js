// An address without a page: it is shown, so that a slip of the pen is seen.

import { byId } from "./dom.js";

byId("address").textContent = location.pathname;
