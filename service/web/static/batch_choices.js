// Batches to choose from, by their name or their id.

import { get, withQuery } from "./api.js";
import { isRunning, stateText } from "./batch_parts.js";
import { day, moment } from "./format.js";

const PAGE_SIZE = 200;
const SHOWN = 30;
const LONGEST = 200;
const WHOLE_ID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;

/**
 * Batches that have ended and whose name holds the text, the newest first; where there are none, new ones whose
 * id does, or any by its whole id.
 */
export async function findBatches(text, isWanted = (batch) => !isRunning(batch)) {
  const newest = async (filter) => (await get(withQuery("/v1/scenario-batches", { ...filter, page_size: PAGE_SIZE }))).items;
  let found = await newest({ name_contains: text.slice(0, LONGEST) });
  const id = text.toLowerCase();
  if (!found.length && WHOLE_ID.test(id)) found = [await get(`/v1/scenario-batches/${id}`)];
  if (!found.length && text) found = (await newest({})).filter((batch) => batch.id.includes(id));
  return found.filter(isWanted).slice(0, SHOWN).map(batchOption);
}

export function batchOption(batch) {
  const hint = `${stateText(batch.state)} · ${day(batch.start_on)} · ${moment(batch.created_at)}`;
  return { value: batch.id, text: batch.name, hint };
}
