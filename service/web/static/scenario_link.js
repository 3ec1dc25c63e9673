// Links to the simulator with a scenario, in the form that its own address has.

import { START, writeQuery } from "./scenario_state.js";

/** The address of the simulator with this scenario. */
export function simulatorLink(scenario) {
  const query = new URLSearchParams();
  // Fields that are off are off in the simulator too, unless it starts with them
  const set = Object.entries(scenario).filter(([name, value]) => value !== null || START[name] !== undefined);
  writeQuery(query, Object.fromEntries(set), START);
  const text = query.toString();
  return text ? `/?${text}` : "/";
}
