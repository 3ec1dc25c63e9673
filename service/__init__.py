"""Trainard: what waiting costs in synchronous GPU training."""

import os

# Before NumPy is imported: its matrices here are small, and the cores are taken by processes that
# compute; threads of its own would only wait for each other (a third of the speed, measured).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
