"""Ranks that step without a barrier, step by step: what has no closed form."""
