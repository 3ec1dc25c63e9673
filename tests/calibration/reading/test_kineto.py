import numpy as np
import pytest

from service.calibration.options import CalibrationOptions
from service.calibration.reading.door import read_timings
from service.calibration.reading.kineto import read_kineto
from service.calibration.refusals import TimingsRefusedError
from tests.calibration.reading.kineto_traces import (
    Event,
    all_reduce,
    gemm,
    kernel,
    launch,
    opened,
    packed,
    read,
    step,
    step_on_gpu,
    whole,
)

ORIGIN = 4_458_676_416_431


def two_steps(shift: float = 0.0) -> list[Event]:
    """Two steps of 1 000 us; the second one's compute overlaps with itself on two streams."""
    at = ORIGIN + shift
    return [
        step(4, at, 1_000),
        step(5, at + 1_000, 1_000),
        gemm(at + 100, 300),
        all_reduce(at + 300, 400),
        gemm(at + 1_100, 300),
        gemm(at + 1_200, 300, stream=8),
        all_reduce(at + 1_350, 450),
        kernel("Memcpy HtoD (Pageable -> Device)", at + 1_900, 50, cat="gpu_memcpy"),
    ]


def refusal(*events: Event) -> str:
    with pytest.raises(TimingsRefusedError) as caught:
        read(opened(whole(list(events))))
    (fault,) = caught.value.faults
    assert fault.file == "trace.json"
    return f"{fault.code}: {fault.detail}"


def test_busy_time_of_compute_is_merged_and_copies_are_none() -> None:
    found = read(opened(whole(two_steps(), 0)), opened(whole(two_steps(7e9), 1)))
    assert found.steps.tolist() == [4, 5]
    assert found.ranks.tolist() == [0, 1]
    # By hand: 300 us, and 1 100 to 1 500
    np.testing.assert_allclose(found.compute_ms, [[0.3, 0.3], [0.4, 0.4]])
    assert found.communication_ms is not None
    np.testing.assert_allclose(found.communication_ms, [[0.4, 0.4], [0.45, 0.45]])
    assert found.step_ms is not None
    np.testing.assert_allclose(found.step_ms, 1.0)
    assert (found.world_size, found.includes_wait, found.format) == (2, False, "kineto")
    assert [file.num_rows for file in found.files] == [8, 8]
    assert found.left_out == ()


def test_compute_beside_a_collective_counts_back_from_its_end() -> None:
    found = read(opened(whole(two_steps(), 0)), opened(whole(two_steps(), 1))).collectives
    assert found is not None
    assert found.rank.tolist() == [0, 0, 1, 1]
    assert found.step.tolist() == [4, 5, 4, 5]
    assert found.order.tolist() == [0, 0, 0, 0]
    assert set(found.name) == {"ncclDevKernel_AllReduce_Sum_f32_RING_LL"}
    np.testing.assert_allclose(found.duration_ms, [0.4, 0.45] * 2)
    assert found.first.tolist() == [0, 1, 2, 3, 4]
    # 300 to 700 beside 100 to 400; 1 350 to 1 800 beside 1 100 to 1 500
    np.testing.assert_allclose(found.before_end_start_ms, [0.4, 0.45] * 2)
    np.testing.assert_allclose(found.before_end_stop_ms, [0.3, 0.3] * 2)


def test_compute_beside_random_collectives_as_counted_microsecond_by_microsecond() -> None:
    random = np.random.default_rng(3)
    for _ in range(30):
        events = [step(0, 0, 500)]
        busy = np.zeros(500, bool)
        for _ in range(12):
            start, length = int(random.integers(0, 450)), int(random.integers(0, 50))
            events.append(gemm(start, length, stream=int(random.integers(3))))
            busy[start : start + length] = True
        kernels = []
        for _ in range(4):
            start, length = int(random.integers(0, 400)), int(random.integers(1, 100))
            events.append(all_reduce(start, length))
            kernels.append((start, length))
        found = read(opened(whole(events)))
        assert found.compute_ms[0, 0] * 1e3 == pytest.approx(busy.sum())
        seen = found.collectives
        assert seen is not None
        for place, (start, length) in enumerate(sorted(kernels, key=lambda pair: pair[0])):
            own = slice(seen.first[place], seen.first[place + 1])
            shared = np.zeros(500, bool)
            for begin, end in zip(
                seen.before_end_start_ms[own], seen.before_end_stop_ms[own], strict=True
            ):
                stop = start + length
                shared[round(stop - begin * 1e3) : round(stop - end * 1e3)] = True
            expected = busy.copy()
            expected[:start] = expected[start + length :] = False
            assert sorted(np.flatnonzero(shared)) == sorted(np.flatnonzero(expected))


@pytest.mark.parametrize("is_last", [True, False])
def test_who_a_rank_is_may_stand_anywhere_in_the_file(is_last: bool) -> None:  # noqa: FBT001
    document = whole(two_steps(), 5, 8)
    about = document.pop("distributedInfo")
    if is_last:
        document["distributedInfo"] = about
    else:
        document = {"distributedInfo": about} | document
    found = read(opened(document))
    assert (found.ranks.tolist(), found.world_size) == ([5], 8)


def test_rank_is_told_by_the_name_of_the_file_or_else_by_the_order() -> None:
    names = ["run2_rank-3.json", "rank_1.json", "worker4.json", "a.json", "b.json"]
    found = read(*(opened(whole(two_steps()), name) for name in names))
    assert found.ranks.tolist() == [0, 1, 2, 3, 4]
    (warning,) = found.warnings
    assert warning.code == "ranks_by_order"
    assert "2 of 5 traces" in warning.detail
    assert "beginning with a.json" in warning.detail
    assert found.world_size is None


def test_two_files_of_one_rank_are_refused() -> None:
    with pytest.raises(TimingsRefusedError, match=r"rank 1 stands in one\.json too") as caught:
        read(opened(whole(two_steps(), 1), "one.json"), opened(whole(two_steps(), 1), "two.json"))
    assert caught.value.faults[0].file == "two.json"


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ((0, 2), (1, 4), "world_size is 4 here and 2 in one.json"),
        ((0, 2), (2, 2), "rank 2 is not below world_size 2"),
    ],
)
def test_ranks_of_different_runs_are_refused(
    first: tuple[int, int], second: tuple[int, int], reason: str
) -> None:
    with pytest.raises(TimingsRefusedError, match=reason):
        read(
            opened(whole(two_steps(), *first), "one.json"),
            opened(whole(two_steps(), *second), "two.json"),
        )


def test_a_kernel_that_runs_after_its_steps_window_belongs_to_its_launch() -> None:
    events = [
        step(1, 0, 100),
        step(2, 100, 100),
        launch(50, 11),
        launch(60, 12),
        launch(150, 13),
        gemm(120, 40, args={"correlation": 11}),
        all_reduce(165, 20, args={"correlation": 12}),
        gemm(230, 30, args={"correlation": 13}),
        gemm(500, 30, args={"correlation": 99}),
    ]
    found = read(opened(whole(events)))
    np.testing.assert_allclose(found.compute_ms[:, 0], [0.04, 0.03])
    assert found.collectives is not None
    assert found.collectives.step.tolist() == [1]
    (left,) = found.left_out
    assert (left.reason, left.count) == ("kernels outside of every step", 1)


def test_annotations_on_the_gpus_streams_say_the_step_first() -> None:
    events = [
        step(1, 0, 100),
        step(2, 100, 100),
        step_on_gpu(1, 80, 100),
        step_on_gpu(2, 200, 50),
        step_on_gpu(1, 150, 80, stream=20),
        launch(190, 5),
        gemm(90, 60),
        gemm(205, 40),
        all_reduce(210, 20),
        # On a stream without annotation: by its launch
        gemm(150, 10, stream=9, args={"correlation": 5}),
    ]
    found = read(opened(whole(events)))
    # Step 2: 205 to 245, and 150 to 160 of the other stream
    np.testing.assert_allclose(found.compute_ms[:, 0], [0.06, 0.05])
    assert found.collectives is not None
    assert found.collectives.step.tolist() == [1]
    assert found.step_ms is not None
    # From the first kernel of step 1 to that of step 2, and to the end of step 2
    np.testing.assert_allclose(found.step_ms[:, 0], [0.12, 0.05])


def test_launches_without_windows_on_the_cpu_say_nothing() -> None:
    events = [step_on_gpu(1, 80, 100), launch(50, 3), gemm(90, 60)]
    late = gemm(95, 60, stream=9, args={"correlation": 3})
    found = read(opened(whole([*events, late])))
    assert [left.count for left in found.left_out] == [1]


def test_without_launches_a_kernel_belongs_to_the_window_it_starts_in() -> None:
    events = [step_on_gpu(1, 80, 100), step_on_gpu(2, 200, 50), gemm(90, 60, stream=9)]
    found = read(opened(whole([*events, gemm(210, 10), gemm(400, 10)])))
    np.testing.assert_allclose(found.compute_ms[:, 0], [0.06, 0.01])


def test_steps_that_were_cut_off_are_left_out() -> None:
    events = [step(n, 100 * n, 100) for n in range(6)]
    for n, kernels in enumerate([2, 6, 6, 5, 2]):
        events += [gemm(100 * n + 10 * k, 5) for k in range(kernels)]
    found = read(opened(whole(events)))
    assert found.steps.tolist() == [1, 2, 3]
    assert {left.reason: left.count for left in found.left_out} == {
        "steps of a trace without any kernel": 1,
        "first or last steps with less than half of the others' kernels": 2,
    }


def test_a_step_that_one_rank_has_not_is_a_missing_cell() -> None:
    second = [event for event in two_steps() if event["ts"] < ORIGIN + 1_000]
    found = read(opened(whole(two_steps(), 0)), opened(whole(second, 1)))
    assert np.isnan(found.compute_ms).tolist() == [[False, False], [False, True]]


@pytest.mark.parametrize(
    "name",
    [
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
        "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevComm*)",
        "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
        "void ncclSymkDevKernel_AllGather_LLMC()",
        "rccl_main_kernel",
        "mscclKernel_Sum_half_LL(...)",
        "oneccl_allreduce_main",
    ],
)
def test_names_of_communication_kernels(name: str) -> None:
    events = [step(0, 0, 100), gemm(0, 10), kernel(name, 20, 30)]
    found = read(opened(whole(events, 0)))
    assert found.communication_ms is not None
    assert found.communication_ms[0, 0] == pytest.approx(0.03)
    assert found.compute_ms[0, 0] == pytest.approx(0.01)


def test_a_hip_kernel_is_compute_and_rocms_copies_are_none() -> None:
    events = [
        step(0, 0, 100),
        kernel("hip_gemm_kernel_MT64x16", 0, 10, cat="Kernel"),
        kernel("__amd_rocclr_copyBuffer.kd", 20, 10, cat="Kernel"),
        kernel("CopyHostToDevice", 30, 10, cat="Memcpy"),
    ]
    found = read(opened(whole(events)))
    assert found.compute_ms[0, 0] == pytest.approx(0.01)
    assert found.communication_ms is None
    assert found.collectives is None


def test_what_the_profiler_says_of_a_collective_counts_more_than_its_name() -> None:
    about = {
        "Collective name": "allreduce",
        "Process Group Name": "3",
        "Group size": 2,
    }
    events = [step(0, 0, 100), gemm(0, 10), kernel("strange_all_reduce<4>()", 20, 30, args=about)]
    found = read(opened(whole(events, 0))).collectives
    assert found is not None
    assert found.name == ("strange_all_reduce<4> of group 3",)
    assert found.members.tolist() == [2]


def test_the_number_of_elements_tells_reductions_apart() -> None:
    """Two of one name, of which each rank starts another first; of the rest sizes may differ."""

    def names(collective: str, sizes: list[object]) -> tuple[str, ...]:
        events = [step(0, 0, 100), gemm(0, 10)]
        for place, size in enumerate(sizes):
            about = {"Collective name": collective, "In msg nelems": size}
            events.append(kernel("nccl_all()", 20 + 9 * place, 8, args=about))
        found = read(opened(whole(events, 0))).collectives
        assert found is not None
        return found.name

    assert names("allreduce", [64, 9]) == ("nccl_all of 64 elements", "nccl_all of 9 elements")
    assert names("_reduce_scatter_base", [9, 64])[1] == "nccl_all of 64 elements"
    assert names("all_to_all", [9, 64]) == ("nccl_all", "nccl_all")
    assert names("allreduce", [0, "9"]) == ("nccl_all", "nccl_all")


def test_several_ranks_without_known_communication_are_refused_with_what_was_seen() -> None:
    events = [step(0, 0, 100), gemm(0, 10), kernel("vendor_all_reduce_v7", 20, 30)]
    with pytest.raises(TimingsRefusedError) as caught:
        read(opened(whole(events, 0, 16)))
    (fault,) = caught.value.faults
    assert fault.code == "unknown_kernel_names"
    assert "rank 0 of 16, backend nccl has no communication kernel" in fault.detail
    # What looks like communication stands first
    assert "kernels seen: vendor_all_reduce_v7; void cutlass" in fault.detail
    with pytest.raises(TimingsRefusedError, match="rank 1 of 2 has no communication"):
        read(opened(whole(two_steps()), "rank0"), opened(whole(events), "rank1"))


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (gemm(5, -1), "has dur -1: microseconds from 0 to 1e+12"),
        (gemm(5, 2e12), "has dur 2e+12"),
        (gemm(5, 1) | {"dur": "NaN"}, "has dur 'NaN': a number of microseconds"),
        (gemm(5, 1) | {"dur": True}, "has dur True"),
        (gemm(5, 1) | {"dur": None}, "has dur missing"),
        ({k: v for k, v in gemm(5, 1).items() if k != "ts"}, "has ts missing"),
        ({k: v for k, v in gemm(5, 1).items() if k != "dur"}, "has dur missing"),
    ],
)
def test_times_that_are_none_are_refused(event: Event, said: str) -> None:
    found = refusal(step(0, 0, 100), event)
    assert found.startswith("bad_value: event 2 (void cutlass")
    assert said in found


def test_a_step_marked_twice_is_refused() -> None:
    assert "duplicate_row: ProfilerStep#3 stands twice on the CPU" in refusal(
        step(3, 0, 100), step(3, 100, 100), gemm(5, 5)
    )
    assert "ProfilerStep#3 stands twice on one GPU stream" in refusal(
        step_on_gpu(3, 0, 100), step_on_gpu(3, 100, 100), gemm(5, 5)
    )


def test_traces_without_steps_or_kernels_are_refused() -> None:
    assert "no_steps: no annotation ProfilerStep#n" in refusal(gemm(0, 5))
    assert "no_steps: no GPU kernels" in refusal(step(0, 0, 100))
    assert "no_steps: no kernel falls into" in refusal(step(0, 0, 100), gemm(200, 5))


def test_kernels_that_overlap_without_end_are_refused() -> None:
    events = [step(0, 0, 1e6)]
    events += [gemm(10 * k, 5) for k in range(4_600)]
    events += [all_reduce(0, 1e5 + k) for k in range(4_600)]
    assert "lie beside compute 21160000 times: at most 20000000" in refusal(*events)


def test_traces_come_through_the_door_packed_or_not() -> None:
    files = [packed(whole(two_steps(), 0)), opened(whole(two_steps(3), 1))]
    told: list[int] = []
    found = read_timings(files, CalibrationOptions(tensor_parallel_size=4), told.append)
    assert found.ranks.tolist() == [0, 1]
    assert found.num_gpus_per_rank == 4
    assert told[-1] >= sum(file.num_bytes for file in files)


def test_progress_is_told_over_all_files() -> None:
    files = [opened(whole(two_steps(), rank)) for rank in (0, 1)]
    told: list[int] = []
    read_kineto(files, CalibrationOptions(), told.append)
    assert told == [files[0].num_bytes, files[0].num_bytes + files[1].num_bytes]
