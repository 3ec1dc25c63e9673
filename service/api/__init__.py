"""JSON over HTTP: one module per noun, each with its `routes`."""
