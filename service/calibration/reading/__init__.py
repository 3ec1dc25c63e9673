"""Files of observed timings, read as streams in bounded memory."""
