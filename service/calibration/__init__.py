"""Calibration: observed timings become fitted scenario parts, and what they cannot tell is said.

Pure like the model: arrays and open streams in, documents out. `reading` turns files into
`timings`, `fit` turns timings into `findings`; both refuse (`refusals`) rather than guess.
"""
