"""The formats of exported files: the same numbers in each, streamed in bounded memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from service.reports.export_arrow import write_arrow, write_parquet
from service.reports.export_fields import Chunk, Field
from service.reports.export_text import write_csv, write_json_lines


class Writer(Protocol):
    """Turn chunks into the bytes of a file, part by part; `facts` go where the format can say."""

    def __call__(
        self, fields: Sequence[Field], chunks: Iterable[Chunk], facts: Mapping[str, str] = ...
    ) -> Iterator[bytes]:
        """The parts of the file, in order."""


@dataclass(frozen=True, kw_only=True)
class Exporter:
    """A format: what it is called in HTTP and in file names, and its writer."""

    media_type: str
    extension: str
    write: Writer


EXPORTERS: Mapping[str, Exporter] = {
    "csv": Exporter(
        media_type="text/csv; charset=utf-8; header=present", extension="csv", write=write_csv
    ),
    "jsonl": Exporter(media_type="application/x-ndjson", extension="jsonl", write=write_json_lines),
    "parquet": Exporter(
        media_type="application/vnd.apache.parquet", extension="parquet", write=write_parquet
    ),
    "arrow": Exporter(
        media_type="application/vnd.apache.arrow.stream", extension="arrows", write=write_arrow
    ),
}
