import gzip
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import numpy as np
import psutil
import pytest

from service.calibration.options import CalibrationOptions
from service.calibration.reading.limits import ReadingLimits
from service.calibration.refusals import Fault, TimingsRefusedError
from service.jobs.calibration_messages import (
    Audited,
    Failed,
    Found,
    ReadSoFar,
    Refused,
    decode,
    encode,
)
from service.jobs.calibration_work import (
    ReadingCanceledError,
    ReadingFailedError,
    SpooledFile,
    find,
)

HEADER = "step,rank,compute_ms\n"
GIGABYTE = 10**9


def spooled(path: Path, name: str = "run.csv") -> SpooledFile:
    content = path.read_bytes() if path.is_file() else b""
    digest = hashlib.sha256(content).hexdigest()
    return SpooledFile(name=name, path=str(path), num_bytes=len(content), sha256=digest)


def table(num_steps: int, num_ranks: int) -> str:
    rng = np.random.default_rng(4)
    ranks_ms = 300 * (1 + 0.02 * rng.standard_normal(num_ranks))
    cells_ms = (ranks_ms * (1 + 0.01 * rng.standard_normal((num_steps, num_ranks)))).tolist()
    rows = (
        f"{step},{rank},{cells_ms[step][rank]}\n"
        for step in range(num_steps)
        for rank in range(num_ranks)
    )
    return HEADER + "".join(rows)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> SpooledFile:
    path = tmp_path_factory.mktemp("spool") / "0"
    path.write_text(table(40, 8))
    return spooled(path, "../of the caller.csv")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> SpooledFile:
    path = tmp_path_factory.mktemp("spool") / "0"
    rows = "".join(f"{{}},{rank},300.123456789,310.5\n" for rank in range(256))
    with path.open("w") as file:
        file.write("step,rank,compute_ms,step_ms\n")
        file.writelines(rows.format(*[step] * 256) for step in range(2_000))
    return spooled(path)


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children() if "spawn" in str(child.cmdline())}


def test_findings_come_from_a_process_that_is_over(plain: SpooledFile) -> None:
    before = children()
    findings = find([plain], CalibrationOptions())
    assert findings.source.num_steps == 40
    assert findings.source.num_ranks == 8
    assert findings.source.files[0].name == "../of the caller.csv"
    assert children() == before


def test_a_refusal_keeps_its_place(tmp_path: Path) -> None:
    path = tmp_path / "0"
    path.write_text(HEADER + "0,0,3\n0,1,NaN\n")
    with pytest.raises(TimingsRefusedError) as caught:
        find([spooled(path, "a/b.csv")], CalibrationOptions())
    (fault,) = caught.value.faults
    assert (fault.code, fault.file, fault.line) == ("bad_value", "a/b.csv", 3)


def test_progress_tells_the_bytes_that_were_read(large: SpooledFile) -> None:
    told: list[int] = []
    with pytest.raises(TimingsRefusedError, match="one of 1 values"):
        find([large], CalibrationOptions(), progress=told.append)
    assert told == sorted(told)
    assert len(told) == 3
    assert 12 << 20 <= told[-1] <= large.num_bytes + (2 << 20)


def test_beyond_its_processor_time_it_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "0"
    lines = gzip.compress(bytes([10]) * (16 << 20))
    path.write_bytes(gzip.compress(HEADER.encode()) + lines * 500)
    limits = ReadingLimits(processor_s=1, compression_ratio=10**6)
    with pytest.raises(TimingsRefusedError, match="over 1 s of processor time"):
        find([spooled(path)], CalibrationOptions(), limits)


def test_beyond_its_time_it_is_ended(large: SpooledFile) -> None:
    before = children()
    with pytest.raises(TimingsRefusedError, match="took over 0 s, which is the limit"):
        find([large], CalibrationOptions(), ReadingLimits(elapsed_s=0))
    assert children() == before


def test_beyond_its_memory_it_is_refused(large: SpooledFile) -> None:
    with pytest.raises(TimingsRefusedError) as caught:
        find([large], CalibrationOptions(), ReadingLimits(memory_bytes=12 << 20))
    (fault,) = caught.value.faults
    assert fault.code == "file_too_large"
    assert "12582912 bytes of memory" in fault.detail


def test_when_nobody_waits_any_more_it_is_killed(large: SpooledFile) -> None:
    before, begun = children(), time.monotonic()
    seen: set[int] = set()

    def is_canceled() -> bool:
        seen.update(children() - before)
        return time.monotonic() > begun + 0.5

    with pytest.raises(ReadingCanceledError):
        find([large], CalibrationOptions(), is_canceled=is_canceled)
    assert seen
    assert not any(psutil.pid_exists(pid) for pid in seen)


def test_a_killed_process_is_told_of(large: SpooledFile) -> None:
    before = children()

    def kill() -> None:
        while not (found := children() - before):
            time.sleep(0.02)
        for pid in found:
            os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(TimingsRefusedError, match="was killed, as a machine does"):
        find([large], CalibrationOptions())
    killer.join()


def test_a_file_that_is_gone_is_a_mistake_of_the_program(tmp_path: Path) -> None:
    with pytest.raises(ReadingFailedError, match="FileNotFoundError: "):
        find([spooled(tmp_path / "missing")], CalibrationOptions())


@pytest.fixture
def options_of_this_process(monkeypatch: pytest.MonkeyPatch) -> CalibrationOptions:
    """Of a module that only this process has: the started one cannot import it."""
    module = types.ModuleType("of_this_process_alone")
    kind = type("Options", (CalibrationOptions,), {"__module__": module.__name__}, frozen=True)
    monkeypatch.setattr(module, "Options", kind, raising=False)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    options: CalibrationOptions = kind()
    return options


def test_an_import_that_fails_is_a_mistake_of_the_program(
    plain: SpooledFile, options_of_this_process: CalibrationOptions
) -> None:
    with pytest.raises(ReadingFailedError, match="ended with exit code 1 "):
        find([plain], options_of_this_process)


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (signal.SIGSEGV, TimingsRefusedError),
        (signal.SIGABRT, TimingsRefusedError),
        (signal.SIGBUS, TimingsRefusedError),
        (signal.SIGTERM, ReadingFailedError),
        (signal.SIGHUP, ReadingFailedError),
    ],
)
def test_only_what_a_file_can_bring_about_is_its_fault(
    large: SpooledFile, number: signal.Signals, error: type[Exception]
) -> None:
    """The process is met while it starts, when it does not yet leave signals to its parent."""
    before = children()

    def end() -> None:
        while not (found := children() - before):
            time.sleep(0.002)
        for pid in found:
            os.kill(pid, number)

    ender = threading.Thread(target=end)
    ender.start()
    with pytest.raises(error, match=f"exit code -{number.value}"):
        find([large], CalibrationOptions())
    ender.join()


def test_it_ends_with_whoever_started_it(large: SpooledFile, tmp_path: Path) -> None:
    code = f"""
from service.calibration.options import CalibrationOptions
from service.jobs.calibration_work import SpooledFile, find
if __name__ == "__main__":
    find([SpooledFile(name="a", path={large.path!r}, num_bytes=1, sha256="0")],
         CalibrationOptions(), progress=lambda _: print("reads", flush=True))
"""
    script = tmp_path / "reads.py"
    script.write_text(code)
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"reads\n"
        started = psutil.Process(parent.pid).children(recursive=True)
        assert started
        parent.kill()
    _, alive = psutil.wait_procs(started, timeout=90)
    assert not alive


def test_a_gigabyte_in_bounded_memory(tmp_path: Path) -> None:
    """14 million rows; beyond the 3 GiB it would be refused."""
    path = tmp_path / "0"
    rng = np.random.default_rng(8)
    variants = []
    for _ in range(16):
        cells_ms = 300 * rng.normal(1, 0.01, 1_024) * np.linspace(0.98, 1.02, 1_024)
        rows = [
            f"@,{rank},1.250000000000000000,{cell_ms:.15f},320.000000000000000000\n"
            for rank, cell_ms in enumerate(cells_ms.tolist())
        ]
        variants.append("".join(rows).encode())
    with path.open("wb") as file:
        file.write(b"step,rank,load_ms,compute_ms,step_ms\n")
        for step in range(GIGABYTE // len(variants[0]) + 1):
            file.write(variants[rng.integers(16)].replace(b"@", b"%06d" % step))
    size = path.stat().st_size
    assert size > GIGABYTE
    large = SpooledFile(name="run.csv", path=str(path), num_bytes=size, sha256="0")
    found = find([large], CalibrationOptions(), ReadingLimits(memory_bytes=3 << 30))
    assert found.source.num_ranks == 1_024
    assert found.source.files[0].num_rows == found.source.num_steps * 1_024


def test_messages_survive_the_pipe() -> None:
    fault = Fault(code="bad_value", detail="no", file="a", line=3)
    for message in (ReadSoFar(num_bytes=3), Refused(faults=(fault,)), Failed(trace="…")):
        assert decode(encode(message)) == message
    assert {
        kind.__struct_config__.tag for kind in (ReadSoFar, Found, Audited, Refused, Failed)
    } == {
        "read",
        "found",
        "audited",
        "refused",
        "failed",
    }
