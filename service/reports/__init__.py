"""Columns in, documents out: money, comparison, history, exports, tables. No database, no HTTP."""
