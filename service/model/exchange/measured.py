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
    sizes_of = columns["communication.sizes_bytes"].tolist()
    times_of = columns["communication.times_ms"].tolist()
    curves: dict[tuple[tuple[float, ...], tuple[float, ...]], list[int]] = {}
    for row, curve in enumerate(zip(sizes_of, times_of, strict=True)):
        curves.setdefault(curve, []).append(row)
    for (known_bytes, known_ms), rows in curves.items():
        of_curve = np.log(size_bytes[..., rows])
        times[..., rows] = np.exp(np.interp(of_curve, np.log(known_bytes), np.log(known_ms)))
    return times
