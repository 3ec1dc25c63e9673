"""How the mean of a window is spread over random clusters."""
