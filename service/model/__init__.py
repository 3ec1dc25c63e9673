"""The physics: pure functions of arrays, and the declarations of what goes in and comes out."""

# MAJOR when an existing column changes by more than 1e-8 for an existing input, MINOR when
# inputs or columns are added (design page "Decisions", 14).
MODEL_VERSION = "3.0"
