from pathlib import Path

from tests.cli.conftest import Program

URL = "sqlite:///rates.db"
HEADER = "gpu_type,cost_center,currency,price_per_gpu_hour,valid_from,valid_until,source\n"
BAD_LINES = """\
A100,,EUR,1.00,2026-01-01,,good line
A100,,EUR,1.00,2026-13-01,,no such month
A100,,EUR,minus one,2026-01-01,,no number
"""


def test_dry_run_stores_nothing(trainard: Program, example: Path) -> None:
    file = str(example / "rates.csv")
    checked = trainard("import-rates", file, "--database-url", URL, "--dry-run")
    assert checked.returncode == 0, checked.stderr
    assert "4 rates can be stored" in checked.stdout
    assert "4 rates stored" in trainard("import-rates", file, "--database-url", URL).stdout
    again = trainard("import-rates", file, "--database-url", URL)
    assert again.returncode == 2
    assert again.stderr.count("overlapping_rate") == 4


def test_all_bad_lines_are_named_and_none_is_stored(trainard: Program) -> None:
    text = HEADER + BAD_LINES
    refused = trainard("import-rates", "-", "--database-url", URL, stdin=text)
    assert refused.returncode == 2
    assert "/rows/3/valid_from" in refused.stderr
    assert "/rows/4/price_per_gpu_hour" in refused.stderr
    assert "/rows/2" not in refused.stderr
    stored = trainard(
        "import-rates", "-", "--database-url", URL, stdin=HEADER + BAD_LINES.splitlines()[0]
    )
    assert "1 rates stored" in stored.stdout


def test_text_that_is_not_utf8_is_refused(trainard: Program, tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes(HEADER.encode() + b"A100,,EUR,1,2026-01-01,,caf\xe9\n")
    refused = trainard("import-rates", "latin.csv", "--database-url", URL)
    assert refused.returncode == 2
    assert "not UTF-8" in refused.stderr
