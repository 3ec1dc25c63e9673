"""What goes into an exported file: its columns, its rows chunk by chunk, and their origin."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any
from uuid import UUID

import msgspec

from service.db.engine import Row
from service.jobs.export_documents import ExportColumn, ExportedBatch, ExportIn
from service.jobs.prices import BatchPrices
from service.reports.export import EXPORTERS
from service.reports.export_fields import Chunk, Field

TRAINARD_VERSION = version("trainard")
# Rows of a chunk: with 30 columns some 12 MB
CHUNK_ROWS = 50_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Extract:
    """Columns and rows of one snapshot; `chunks` are read while they are asked for."""

    fields: list[Field]
    chunks: Iterator[Chunk]
    batches: list[ExportedBatch]

    @property
    def model_versions(self) -> list[str]:
        """The versions of the model that computed the batches."""
        return sorted({batch.model_version for batch in self.batches})

    def columns(self) -> list[ExportColumn]:
        """The columns as they are told."""
        return [
            ExportColumn(
                name=field.name,
                kind=field.kind,
                unit=field.unit,
                sentence=field.sentence,
                labels=list(field.labels),
            )
            for field in self.fields
        ]

    def written(self, query: ExportIn) -> Iterator[bytes]:
        """The file's bytes, part by part."""
        return EXPORTERS[query.format].write(self.fields, self.chunks, self._facts(query))

    def _facts(self, query: ExportIn) -> Mapping[str, str]:
        """What the file itself says of its origin, where its format has a place for that."""
        facts: dict[str, Any] = {
            "version": TRAINARD_VERSION,
            "query": query,
            "model_versions": self.model_versions,
            "batches": [batch.id for batch in self.batches],
        }
        return {
            name: fact if isinstance(fact, str) else msgspec.json.encode(fact).decode()
            for name, fact in facts.items()
        }


def exported_batch(batch: Row[Any], prices: BatchPrices | None) -> ExportedBatch:
    """A batch as the sidecar tells it."""
    batch_id: UUID = batch.id
    return ExportedBatch(
        id=batch_id,
        name=batch.name,
        model_version=batch.model_version,
        pricing=prices.sequence if prices else None,
        currency=prices.currency if prices else None,
        rates_as_of=prices.rates_as_of if prices else None,
    )
