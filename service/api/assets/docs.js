"use strict";

// Swagger UI's own resolver goes through the whole document at every question, which takes seconds.
// Ours follows the references of the part that is asked for: all of them are within the document, and
// none leads back to where it stands (tests/api/test_docs.py).
function resolved(value, whole) {
  if (Array.isArray(value)) return value.map((one) => resolved(one, whole));
  if (value === null || typeof value !== "object") return value;
  const { $ref, ...rest } = value;
  const own = Object.fromEntries(Object.entries(rest).map(([name, part]) => [name, resolved(part, whole)]));
  return typeof $ref === "string" ? { ...resolved(at(whole, partsOf($ref)), whole), ...own } : own;
}

function partsOf(reference) {
  return reference.replace(/^#\//, "").split("/").map((part) => decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~"));
}

function at(whole, path) {
  return path.reduce((part, name) => part?.[name], whole);
}

window.addEventListener("load", () => {
  window.ui = SwaggerUIBundle({
    url: "/openapi.json",
    dom_id: "#docs",
    deepLinking: true,
    tryItOutEnabled: true,
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    // The validator is a service of other people: nothing leaves this host.
    validatorUrl: null,
    plugins: [{ fn: { resolveSubtree: async (whole, path) => ({ errors: [], spec: resolved(at(whole, path), whole) }) } }],
  });
});
