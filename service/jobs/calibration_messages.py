"""What a reading process tells the one that started it: no object is unpickled from it."""

from msgspec import Struct, msgpack

from service.calibration.findings import Findings, OverlapAudit
from service.calibration.refusals import Fault


class ReadSoFar(Struct, frozen=True, kw_only=True, tag="read"):
    """Bytes that were read so far, of all files."""

    num_bytes: int


class Found(Struct, frozen=True, kw_only=True, tag="found"):
    """The end: what was found."""

    findings: Findings


class Audited(Struct, frozen=True, kw_only=True, tag="audited"):
    """The end where overlap alone was asked for: what was found of it."""

    audit: OverlapAudit


class Refused(Struct, frozen=True, kw_only=True, tag="refused"):
    """The end: why the timings are refused."""

    faults: tuple[Fault, ...]


class Failed(Struct, frozen=True, kw_only=True, tag="failed"):
    """The end: a mistake of the program, with where it happened."""

    trace: str


Message = ReadSoFar | Found | Audited | Refused | Failed

encode = msgpack.Encoder().encode
decode = msgpack.Decoder(Message).decode
