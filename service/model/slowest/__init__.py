"""The slowest GPU of one step, pooled over steps and clusters."""
