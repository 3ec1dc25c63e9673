// The results of all batches.

import { byId } from "./dom.js";
import { showProblem } from "./problems.js";
import { resultTable } from "./result_table.js";

resultTable(byId("results-table")).catch(showProblem);
