"""A measured curve of message sizes and times."""

import numpy as np

from service.model.columns import Columns, Floats


def measured_ms(columns: Columns, size_bytes: Floats) -> Floats:
    """(…, points) time of messages of these sizes, (…, points), on each point's own curve.

    Straight between the measured sizes in log-log: exact for any power law, so for both ends of a
    curve, where latency or bandwidth alone counts. Outside of the measured sizes the nearest one's
    time is returned: rules refuse those points. Sizes must ascend, as rules demand.
    """
    times = np.empty(size_bytes.shape)
    # No curve begins below a byte, and nothing has no logarithm.
    wanted = np.maximum(size_bytes, 1.0)
    sizes_of = columns["communication.sizes_bytes"].tolist()
    times_of = columns["communication.times_ms"].tolist()
    # The points of a grid share few curves: told apart as objects, not number by number.
    curves: dict[tuple[int, int], list[int]] = {}
    for row, (sizes, known_ms) in enumerate(zip(sizes_of, times_of, strict=True)):
        curves.setdefault((id(sizes), id(known_ms)), []).append(row)
    for rows in curves.values():
        known = np.log(sizes_of[rows[0]]), np.log(times_of[rows[0]])
        times[..., rows] = np.exp(np.interp(np.log(wanted[..., rows]), *known))
    return times
