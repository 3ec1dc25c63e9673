// The words of the page, in its language, as the server wrote them into it.

export const language = document.documentElement.lang;

const words = JSON.parse(document.getElementById("texts").textContent);
const plurals = new Intl.PluralRules(language);

/** The text of a key such as "results.none", with `{name}` filled in. */
export function t(key, filled = {}) {
  const text = words[key];
  if (text === undefined) throw new Error(`there is no text ${key}`);
  return text.replace(/\{(\w+)\}/g, (whole, name) => {
    if (!(name in filled)) throw new Error(`${key} needs ${name}`);
    return String(filled[name]);
  });
}

/** Whether there is such a text: names of codes that are newer than the texts have none. */
export function has(key) {
  return key in words;
}

/** The text, or the code as words where it has none. */
export function named(key, code) {
  return has(`${key}${code}`) ? t(`${key}${code}`) : String(code).replaceAll("_", " ");
}

/** `key_one` or `key_other` by the number, which is `{count}` (give it formatted as `shown`). */
export function counted(key, number, shown, filled = {}) {
  const form = `${key}_${plurals.select(number)}`;
  return t(has(form) ? form : `${key}_other`, { count: shown, ...filled });
}
