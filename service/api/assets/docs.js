"use strict";

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
  });
});
