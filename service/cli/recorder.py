"""`trainard recorder`: the file that a PyTorch project copies to record its ranks."""

import sys
from importlib.resources import files

import rich_click as click


@click.command("recorder")
def command() -> None:
    """Print the recorder for a PyTorch loop.

    At most 60 lines that need nothing but PyTorch:

        trainard recorder > trainard_recorder.py

    Copy it beside your training code and wrap the loader as its first lines say. Each rank writes
    a line a step: what it takes for loading and compute without its wait for others, which a timer
    around the backward pass would hold. Then, with the files of one start:

        trainard calibrate timings/*.csv
    """
    file = files("service.calibration").joinpath("recorder", "trainard_recorder.py")
    sys.stdout.write(file.read_text(encoding="utf-8"))
