"""Questions about a scenario: inverse ones, and how sure its answer is."""
