"""How to get the numbers of a report again: commands that can be pasted, and what they rest on."""

import shlex
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec

from service.jobs.export_extracts import TRAINARD_VERSION
from service.jobs.report_reading import ReadBatch, scenario_of
from service.model.scenario import normalised
from service.reports.loss_report import Reproduce
from service.reports.report_sides import ReportSide

# What the commands expect in the environment: the address of the service
ADDRESS: Final = "$TRAINARD_URL"
# A service that is open for a first try knows no key, and refuses one: then none is sent.
CURL: Final = 'curl -sSf -H "${TRAINARD_API_KEY:+Authorization: Bearer $TRAINARD_API_KEY}"'


def reproduction_of(
    report_id: UUID, read: ReadBatch, side: ReportSide, baseline: ReadBatch | None
) -> Reproduce:
    """The commands, and what they rest on.

    Set `TRAINARD_URL` (http://127.0.0.1:8000), and `TRAINARD_API_KEY` where keys are demanded.
    """
    batch, prices = read.batch, read.prices
    return Reproduce(
        commands=[
            *_stored(report_id, read),
            *_computed_again(read, side),
            _made_again(read, baseline),
        ],
        model_version=batch.model_version,
        input_digest=batch.input_digest,
        seeds=sorted({item.seed for item in side.items}),
        profiles=sorted(
            {f"{item.profile}@{item.profile_revision}" for item in side.items if item.profile}
        ),
        rate_ids=sorted(read.rate_ids),
        rates_as_of=None if prices is None else prices.rates_as_of,
        trainard_version=TRAINARD_VERSION,
    )


def _stored(report_id: UUID, read: ReadBatch) -> list[str]:
    """The numbers as they are stored: the report and the results it is made of."""
    results = f"{ADDRESS}/v1/scenario-batches/{read.batch.id}/results"
    return [
        f'{CURL} "{ADDRESS}/v1/reports/{report_id}/content?format=json"',
        f'{CURL} "{results}?order_by=-gpu_hours_lost"',
    ]


def _computed_again(read: ReadBatch, side: ReportSide) -> Sequence[str]:
    """What the scenario that loses most loses, computed anew by the service, and without one."""
    losing = max(side.counted, key=lambda item: item.lost_per_30_days, default=None)
    if losing is None or losing.found is None:
        return []
    (row,) = (item for item in read.items if item.custom_id == losing.custom_id)
    scenario = normalised(scenario_of(row, losing.found.point))
    plain = shlex.quote(msgspec.json.encode(scenario).decode())
    whole = shlex.quote(msgspec.json.encode({"scenario": scenario}).decode())
    post = f"{CURL} -H 'Content-Type: application/json'"
    return [
        f'{post} "{ADDRESS}/v1/evaluations" -d {whole}',
        f"printf '%s' {plain} | trainard evaluate --format json -",
    ]


def _made_again(read: ReadBatch, baseline: ReadBatch | None) -> str:
    """The report once more, of the same batches and pricings."""
    parts = ["trainard report make", str(read.batch.id), _pricing("--pricing", read)]
    if baseline is not None:
        parts += [f"--baseline {baseline.batch.id}", _pricing("--baseline-pricing", baseline)]
    return " ".join([*filter(None, parts), f'--url "{ADDRESS}"'])


def _pricing(option: str, read: ReadBatch) -> str:
    """Nothing for the first pricing, which is taken by itself."""
    sequence = 1 if read.prices is None else read.prices.sequence
    return "" if sequence == 1 else f"{option} {sequence}"
