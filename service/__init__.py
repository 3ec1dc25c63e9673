"""Trainard: what waiting costs in synchronous GPU training."""
