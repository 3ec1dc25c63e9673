"""Traces that are broken, or made to take time and memory."""

import io
import json
import tracemalloc

import numpy as np
import pytest

from service.calibration.reading.kineto_events import MOST_EVENTS, read_trace, refuse_many
from service.calibration.reading.kineto_stream import (
    CHUNK_BYTES,
    DEEPEST,
    LARGEST_EVENT_BYTES,
    LARGEST_FRAME_BYTES,
    EventStream,
)
from service.calibration.reading.kineto_structure import Structure
from service.calibration.refusals import TimingsRefusedError
from tests.calibration.reading.kineto_traces import (
    Event,
    all_reduce,
    gemm,
    opened,
    read,
    step,
    whole,
)

EVENTS = [step(0, 0, 100), gemm(0, 10), all_reduce(5, 10)]


def refusal(data: bytes) -> str:
    with pytest.raises(TimingsRefusedError) as caught:
        read(opened(data))
    return f"{caught.value.faults[0].code}: {caught.value}"


def test_a_list_of_events_alone_is_a_trace_too() -> None:
    found = read(opened(b"\xef\xbb\xbf \n" + json.dumps(EVENTS).encode()))
    assert found.compute_ms[0, 0] == pytest.approx(0.01)


@pytest.mark.parametrize("part", [0.3, 0.7, 0.999])
def test_a_truncated_trace_is_refused(part: float) -> None:
    data = json.dumps(whole(EVENTS * 400)).encode()
    assert "unreadable_file" in refusal(data[: int(len(data) * part)])


@pytest.mark.parametrize(
    "data",
    [b'{"traceEvents": []}', b'{"other": [1, 2]}', b"[]", b'"text"', b"7"],
)
def test_json_that_is_no_trace_is_refused(data: bytes) -> None:
    assert "unknown_format: no traceEvents" in refusal(data)


def test_what_is_no_json_is_refused() -> None:
    assert "unreadable_file" in refusal(b"")
    assert "unreadable_file" in refusal(b"\xff\xfe\x00")
    assert "unreadable_file" in refusal(b'{"traceEvents": [{"name": "\xff\xfe"}]}')
    assert "unreadable_file" in refusal(b'{"traceEvents": [{"dur": NaN}]}')
    assert "Number out of range" in refusal(b'{"traceEvents": [{"dur": 1e999999}]}')


def test_events_that_are_no_objects_are_refused() -> None:
    assert "bad_value: an entry of traceEvents is no object" in refusal(b'{"traceEvents":[{}, 3]}')
    assert "bad_value: after 0 events, an entry" in refusal(b'{"traceEvents":[3, {}]}')
    assert "bad_value: after 0 events, an entry" in refusal(b"[{}, [], {}]")
    assert "bad_value: an entry" in refusal(b"[7, 8]")


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_nesting_is_refused_before_it_takes_time(opening: bytes) -> None:
    assert f"deep: no trace nests beyond {DEEPEST}" in refusal(
        b'{"traceEvents": [' + opening * 200_000
    )


def test_odd_kinds_of_fields_are_passed_over() -> None:
    odd: list[Event] = [
        {"ph": "X", "cat": 3, "name": 4},
        {"ph": "X", "cat": "cpu_op", "ts": "x"},
        {"ph": "X", "cat": "user_annotation", "name": None},
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#x"},
        {"ph": "X", "cat": "cuda_runtime", "args": []},
        {"ph": "X", "cat": "cuda_runtime", "args": {"correlation": "7"}},
        gemm(20, 5) | {"name": None, "args": None},
        all_reduce(40, 5) | {"args": {"Group size": True, "Process Group Name": 3}},
    ]
    found = read(opened(whole([*EVENTS, *odd], None) | {"distributedInfo": [1]}))
    assert found.compute_ms[0, 0] == pytest.approx(0.015)
    assert found.collectives is not None
    assert found.collectives.members.tolist() == [0, 0]
    about = {"rank": True, "world_size": -3, "backend": 5}
    found = read(opened(whole(EVENTS) | {"distributedInfo": about}))
    assert (found.ranks.tolist(), found.world_size) == ([0], None)


def test_a_string_of_megabytes_is_refused_and_not_held() -> None:
    data = b'{"traceEvents": [{"name": "' + b"x" * (8 << 20) + b'"}]}'
    assert f"at most {LARGEST_EVENT_BYTES} are read at once" in refusal(data)


def test_only_so_many_events_are_read() -> None:
    with pytest.raises(TimingsRefusedError, match="more than 100000000 events"):
        refuse_many("trace.json", MOST_EVENTS + 1)


def test_memory_is_bounded_by_kernels_not_by_the_size_of_the_file() -> None:
    filler = json.dumps(
        {"ph": "X", "cat": "cpu_op", "name": "aten::addmm" * 200, "ts": 1, "dur": 2}
    )
    events = ",".join([filler] * 4_000)
    data = f'{{"traceEvents": [{json.dumps(step(0, 0, 100))},{events},{json.dumps(gemm(0, 9))}]}}'
    stream = io.BytesIO(data.encode())
    tracemalloc.start()
    trace = read_trace("trace.json", stream, lambda _: None)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert trace.num_events == 4_002
    assert len(data) > 8_000_000
    assert most < 5_000_000


def test_names_of_compute_kernels_are_not_kept_without_bound() -> None:
    events = [step(0, 0, 1e6), *(gemm(k, 1) | {"name": f"kernel {k}"} for k in range(1_100))]
    trace = read_trace("trace.json", opened(whole(events)).stream, lambda _: None)
    assert len(trace.names) == 1_000
    assert np.sum(trace.name == -1) == 100
    assert len(trace.kind) == 1_100


def depth_of(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


def random_value(random: np.random.Generator, left: int) -> object:
    kind = random.integers(4) if left else 3
    if kind == 0:
        return [random_value(random, left - 1) for _ in range(random.integers(4))]
    if kind == 1:
        return {
            f"k{']}'[i % 2]}": random_value(random, left - 1) for i in range(random.integers(3))
        }
    return "".join(random.choice(list('ab[]{}"\\n\n'), size=random.integers(12)))


def test_depth_is_counted_outside_of_strings_in_any_chunks() -> None:
    random = np.random.default_rng(1)
    for _ in range(300):
        value = random_value(random, 6)
        data = json.dumps(value).encode()
        size = int(random.integers(1, 12))
        structure = Structure()
        chunks = [data[at : at + size] for at in range(0, len(data), size)]
        depths = [structure.marks(chunk).depth.max(initial=0) for chunk in chunks]
        assert max(depths) == depth_of(value)


class InPieces(io.BytesIO):
    """A stream that gives what it likes, as a decompressing one does."""

    def __init__(self, data: bytes, random: np.random.Generator) -> None:
        super().__init__(data)
        self.random = random

    def read(self, _: int | None = -1) -> bytes:
        return super().read(int(self.random.integers(1, 40)))


def test_events_are_cut_out_wherever_chunks_end() -> None:
    random = np.random.default_rng(5)
    for _ in range(60):
        num_events = int(random.integers(1, 30))
        events = [{"name": random_value(random, 4), "i": i} for i in range(num_events)]
        about = {"rank": 3, "x": random_value(random, 4)}
        document: dict[str, object] = {
            "deviceProperties": [{"id": 0}, [1, "]"]],
            "nested": {"traceEvents": [{"i": "no event"}]},
        }
        document |= [{}, {"distributedInfo": about}][int(random.integers(2))]
        document["traceEvents"] = events
        document["distributedInfo"] = about
        document["more"] = random_value(random, 4)
        indent = [None, 1][int(random.integers(2))]
        is_list = bool(random.integers(2))
        data = json.dumps(events if is_list else document, indent=indent).encode()
        stream = EventStream("trace.json", InPieces(data, random), lambda _: None)
        found = [event for batch in stream.batches() for event in json.loads(batch)]
        assert found == events
        assert stream.information == (None if is_list else about)


@pytest.mark.parametrize(
    "data",
    [
        b'{"traceEvents": [{} {}]}',
        b'{"traceEvents": [{},, {}]}',
        b'{"traceEvents": [, {}]}',
        b'{"traceEvents": [{},]}',
        b'{"traceEvents": [{"a": 1]}]}',
        b'{"traceEvents": [{"a" 1}]}',
        b'{"traceEvents": [{}}',
        b'{"traceEvents": [{}]]',
        b'{"traceEvents": [{}]} {"traceEvents": [{}]}',
        b"[{}, {}",
        b"]]]]",
    ],
)
@pytest.mark.parametrize("padding", [0, CHUNK_BYTES - 22, CHUNK_BYTES - 20])
def test_what_parts_events_is_checked_too(data: bytes, padding: int) -> None:
    found = refusal(data[:1] + b" " * padding + data[1:])
    assert found.startswith("unreadable_file")


def test_what_stands_beside_the_events_is_bounded() -> None:
    metadata = b'"' + b"x" * LARGEST_FRAME_BYTES + b'"'
    assert "bytes beside the events" in refusal(b'{"a": ' + metadata + b', "traceEvents": []}')
