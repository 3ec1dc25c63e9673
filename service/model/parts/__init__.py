"""Parts of a scenario: their fields, units and bounds."""
