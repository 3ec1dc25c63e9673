"""How long messages take, and what hides them."""
