"""Back-tests and drift as text for terminals."""

from typing import Any

from service.reports.charts import printable
from service.reports.digits import NOTHING, gpu_hours, milliseconds, signed
from service.reports.tables import Heading, text_table

Document = dict[str, Any]


def back_test_text(test: Document) -> str:
    """One back-test: the verdict with its reasons, and both sides of every part."""
    predicted, losses = test["predicted"], test["comparison"]["losses"]
    low, high = predicted["step_mean_p10_ms"], predicted["step_mean_p90_ms"]
    rows = [
        ["mean step, ms", _ms(predicted["step_mean_ms"]), _ms(test["observed"]["step_mean_ms"])],
        [
            "GPU-hours lost",
            gpu_hours(losses["predicted_gpu_hours_lost"]),
            gpu_hours(losses["observed_gpu_hours_lost"]),
        ],
        *(
            [f"{_words(row['component'])}, ms", _ms(row["predicted_ms"]), _ms(row["observed_ms"])]
            for row in test["comparison"]["components"]
        ),
    ]
    headings = [Heading("of a step", words=True), Heading("predicted"), Heading("observed")]
    lines = [
        f"Back-test {test['id']}",
        f"{printable(test['run_name'])} against {test['profile']}: {_words(test['verdict'])}",
        "",
        text_table(headings, rows),
        "",
        *(f"- {printable(reason)}" for reason in test["comparison"]["reasons"]),
    ]
    if low is not None and low < high:
        lines.append(f"- eight clusters in ten are between {_ms(low)} and {_ms(high)} ms")
    if test["explained_by"] is not None:
        lines.append(f"- what explains it: {_words(test['explained_by'])}")
    lines += [f"! {printable(notice['detail'])}" for notice in test["warnings"]]
    return "\n".join(lines)


def list_text(tests: list[Document]) -> str:
    """Back-tests, one a line."""
    if not tests:
        return "There are no back-tests."
    names = ("back-test", "observed", "profile", "run")
    numbers = ("GPUs", "observed, ms", "predicted, ms", "off, %")
    headings = [
        *(Heading(name, words=True) for name in names),
        *(Heading(name) for name in numbers),
        Heading("verdict", words=True),
    ]
    rows = [
        [
            test["id"],
            _moment(test["observed_at"]),
            test["profile"],
            printable(test["run_name"]),
            str(test["num_gpus"]),
            _ms(test["observed_step_mean_ms"]),
            _ms(test["predicted_step_mean_ms"]),
            _off(test["ratio"]),
            _words(test["verdict"]),
        ]
        for test in tests
    ]
    return text_table(headings, rows)


def drift_text(drift: Document) -> str:
    """The runs of a profile with the sums after each, and what they come to."""
    headings = [
        *(Heading(name, words=True) for name in ("observed", "run")),
        *(Heading(name) for name in ("off, %", "departure", "slower", "faster")),
        Heading("verdict", words=True),
    ]
    rows = [
        [
            _moment(run["observed_at"]),
            printable(run["run_name"]),
            _off(run["ratio"]),
            NOTHING if run["departure"] is None else f"{run['departure']:+.2f}",
            f"{run['slower_sum']:.2f}",
            f"{run['faster_sum']:.2f}",
            _words(run["verdict"]),
        ]
        for run in drift["runs"]
    ]
    threshold = drift["rule"]["threshold"]
    lines = [printable(drift["detail"])]
    if rows:
        lines = [
            text_table(headings, rows),
            "",
            f"A sum of {threshold:g} is a drift.",
            printable(drift["detail"]),
        ]
    if drift["what_to_do"] is not None:
        lines.append(f"What to do: {drift['what_to_do']}")
    return "\n".join(lines)


def _ms(duration: float | None) -> str:
    return milliseconds(duration)


def _off(ratio: float) -> str:
    return signed(f"{100 * (ratio - 1):.2f}")


def _moment(text: str) -> str:
    return text[:16].replace("T", " ")


def _words(name: str) -> str:
    return name.replace("_", " ")
