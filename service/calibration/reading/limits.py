"""What reading may cost: a hostile file is refused with the number that it goes beyond."""

from msgspec import Struct

GIBIBYTE = 1 << 30


class ReadingLimits(Struct, frozen=True, kw_only=True):
    """Bounds of one reading, of all its files together.

    decompressed_bytes   of all gzip files; `compression_ratio` of each, beyond its first 16 MiB:
                         tables reach about 50, a bomb 1 000
    num_cells            steps times ranks; `num_steps` and `num_ranks` of them that differ
    memory_bytes         that the reading process may take beyond what it starts with
    processor_s          of processor time, after which the process is ended
    elapsed_s            after which it is ended in any case
    """

    decompressed_bytes: int = 8 * GIBIBYTE
    compression_ratio: int = 200
    num_cells: int = 20_000_000
    num_steps: int = 10_000_000
    num_ranks: int = 1_000_000
    memory_bytes: int = 4 * GIBIBYTE
    processor_s: int = 300
    elapsed_s: int = 900


DEFAULT_LIMITS = ReadingLimits()
