"""The only room that speaks SQL: tables, engine, one repository per noun, bulk writing."""
