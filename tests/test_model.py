"""The model finds planted costs again, and its structures reach the device as real ledgers say."""

import pytest
from onehot import implementations, model
from onehot.implementations.kernels import GRAPH_LANES
from onehot.implementations.registry import LOOKUP
from onehot.model import Cost, Machine, MissingLimitError, Reached
from onehot.variant import CORRECTED, PUBLISHED, Variant

MICRO = 1e-6


def variant(
    implementation, backend="cupy", geometry=PUBLISHED, m=2048, v=50_000, e=300, layout="C", threads=1
):
    return Variant(
        geometry, backend, implementation, m, v, e, "float32", "int64", "uniform", 0.0, layout, threads
    )


def machine(backend="cupy", *, bandwidth=1e12, call=10 * MICRO, **costs):
    """A machine on which every call costs the same but for those named, and every byte the same."""
    names = set(model.CUPY_CALLS) - {"python_call", "any_array", "wait_item"}
    rates = {
        name: Cost(bandwidth, "bytes_per_second")
        for name in (
            "copy_bandwidth", "copy_bandwidth_cached", "copy_bandwidth_all", "read_bandwidth",
            "write_bandwidth", "l2_read_bandwidth", "first_touch_bandwidth", "host_to_device_pageable",
            "host_to_device_pinned", "device_to_host_pageable", "device_to_host_pinned",
        )
    }  # fmt: skip
    calls = {name: Cost(call, "seconds") for name in names | {"csr_small"}}
    elements = {
        name: Cost(0.0, "seconds")
        for name in (
            "any_element", "argmax_strided_element", "argmax_contiguous_element", "to_list_item",
            "stack_item", "iterate_item",
        )
    }  # fmt: skip
    rate = {name: Cost(1e13, "flop_per_second") for name in ("product_rate", "product_rate_all")}
    own = {name: Cost(value, "seconds") for name, value in costs.items()}
    return Machine(
        {(backend, name): cost for name, cost in {**calls, **elements, **rates, **rate, **own}.items()}
    )


def test_every_registered_implementation_of_numpy_and_cupy_declares_a_structure():
    names = {
        entry.name
        for backend, entry in implementations.entries()
        if backend in ("numpy", "cupy") and entry.task == LOOKUP
    }
    assert names <= set(model.STRUCTURES)


@pytest.mark.parametrize("backend", ["numpy", "cupy"])
def test_every_structure_predicts_a_finite_time(backend):
    for on, entry in implementations.entries():
        if on == backend and entry.task == LOOKUP:
            found = model.predict(variant(entry.name, backend, entry.geometry), machine(backend))
            assert 0 < found.seconds < 1e3
            assert found.seconds >= max(found.host_seconds, found.device_seconds) * (1 - 1e-12)
            assert found.seconds <= found.host_seconds + found.device_seconds + 1e-12


def test_the_published_loop_is_predicted_to_launch_what_a_real_ledger_shows():
    """1797 kernels, 300 copies, 301 waits on an H200; ``any`` of one element is one kernel, not two."""
    found = model.reached(variant("published_loop"), machine())
    assert found == Reached(kernels=1798, to_host=300, to_device=0, waits=301)


def test_without_any_nothing_is_copied_and_the_one_wait_is_the_ledgers_own():
    found = model.reached(variant("rung_no_any"), machine())
    assert found == Reached(kernels=300 + 300 + 2 * 299, to_host=0, to_device=0, waits=1)


def test_a_planted_cost_of_every_call_is_found_in_the_published_loop():
    """Any, argmax, index and vstack a step at 10 us each: 300 x 4 - 1 calls, and bytes cost nothing."""
    found = model.predict(variant("published_loop"), machine(bandwidth=1e30))
    assert found.seconds == pytest.approx((4 * 300 - 1) * 10 * MICRO)


def test_unit_costs_seen_on_an_h200_predict_its_published_loop():
    """Unit costs once seen on an H200 predict 50.1 ms, where 42 to 50 ms were measured."""
    seen = machine(bandwidth=4e12, argmax_strided=20.7e-6, any_bool=61e-6, index_0d=27e-6, vstack_two=58e-6)
    assert model.predict(variant("published_loop"), seen).seconds == pytest.approx(50.1e-3, rel=0.01)


def test_a_planted_bandwidth_is_found_in_a_large_gather():
    """m rows of 1200 bytes read and written at 1 TB/s on the device, while the host is done in 10 us."""
    found = model.predict(variant("fancy_index", geometry=CORRECTED, m=1 << 20), machine(bandwidth=1e12))
    assert found.seconds == pytest.approx(2 * (1 << 20) * 1200 / 1e12)
    assert found.host_seconds == pytest.approx(10 * MICRO)


def test_a_small_gather_is_the_hosts_call():
    found = model.predict(variant("fancy_index", geometry=CORRECTED, m=64), machine())
    assert found.seconds == pytest.approx(10 * MICRO)


def test_what_the_host_waits_for_is_not_overlapped():
    """The decode waits for its indices: its device time comes before the loop's host time, not under it."""
    slow = machine(bandwidth=1e9)  # X alone: 4.9 MB at 1 GB/s
    found = model.predict(variant("rung_preallocated"), slow)
    decode = 2048 * 300 * 8 / 1e9
    assert found.seconds == pytest.approx(decode + (300 + 1) * 10 * MICRO, rel=1e-3)


def test_the_cost_of_timing_is_taken_off_a_call_and_not_off_an_item():
    costs = {
        ("cupy", "python_call"): Cost(1 * MICRO, "seconds"),
        ("cupy", "take_few"): Cost(5 * MICRO, "seconds"),
        ("cupy", "to_list_item"): Cost(5 * MICRO, "seconds"),
    }
    assert Machine(costs).seconds("cupy", {"take_few": 2}) == pytest.approx(8 * MICRO)
    assert Machine(costs).seconds("cupy", {"to_list_item": 2}) == pytest.approx(10 * MICRO)


def test_a_limit_that_was_not_measured_is_named():
    with pytest.raises(MissingLimitError, match="fancy_index_few of cupy"):
        model.predict(variant("fancy_index", geometry=CORRECTED), Machine({}))


def test_numpy_pays_page_faults_only_for_results_that_are_mapped_anew():
    slow_pages = machine("numpy", bandwidth=1e10)
    slow_pages.costs["numpy", "first_touch_bandwidth"] = Cost(1e9, "bytes_per_second")
    fresh = model.predict(variant("take", "numpy", CORRECTED, m=1 << 18), slow_pages)
    again = model.predict(variant("take_out", "numpy", CORRECTED, m=1 << 18), slow_pages)
    assert fresh.seconds > 4 * again.seconds
    small = [model.predict(variant(name, "numpy", CORRECTED), slow_pages) for name in ("take", "take_out")]
    assert small[0].seconds == small[1].seconds


def test_growing_copies_are_counted_once_whatever_cache_they_fit_in():
    v = variant("loop_vstack", "numpy", CORRECTED)
    moved = model._grown(v, machine("numpy"), v.result_rows)
    assert sum(moved.values()) == pytest.approx(2 * model.bytes_copied(v))
    assert set(moved) == {"copy_bandwidth_cached", "copy_bandwidth"}


def test_bytes_copied_of_the_corrected_loop_are_the_known_five_gigabytes():
    read_and_written = 2 * model.bytes_copied(variant("loop_vstack", geometry=CORRECTED))
    assert read_and_written == pytest.approx(5.04e9, rel=0.01)
    assert model.bytes_copied(variant("fancy_index", geometry=CORRECTED)) == 2048 * 1200


@pytest.mark.parametrize("backend", ["numpy", "cupy"])
def test_a_ladder_never_predicts_a_rung_slower_than_the_published_loop(backend):
    from onehot.implementations.ladder import LADDERS

    names = [name for name, _ in LADDERS[PUBLISHED] if implementations.find(name, backend)]
    times = [model.predict(variant(name, backend), machine(backend)).seconds for name in names]
    assert all(below <= times[0] for below in times)
    assert times[-1] <= min(times) * (1 + 1e-9)


def test_divisions_come_before_the_bytes_of_cupys_own_take():
    """Three divisions an element, then its load and store; of elements four times as wide, a quarter."""
    v = variant("fancy_index", geometry=CORRECTED, m=1 << 20)
    elements, moved = (1 << 20) * 300, 2 * (1 << 20) * 1200 / 1e12
    known = machine(remainder_element=1e-12)
    assert model.predict(v, known).seconds == pytest.approx(3 * elements * 1e-12 + moved)
    wide = variant("take_wide", geometry=CORRECTED, m=1 << 20)
    assert model.predict(wide, known).seconds == pytest.approx(3 * elements / 4 * 1e-12 + moved)


def test_an_element_of_cupys_take_replaces_its_divisions_where_it_was_measured():
    v = variant("take", geometry=CORRECTED, m=1 << 20)
    found = model.predict(v, machine(bandwidth=4e12, remainder_element=1e-12, gather_element=6e-12))
    assert found.seconds == pytest.approx(6e-12 * (1 << 20) * 300)
    assert "gather_element" not in found.without
    assert "gather_element" in model.predict(v, machine()).without


@pytest.mark.parametrize(("m", "columns", "threads"), [(1 << 16, 300, 16), (64, 300, 16), (64, 1, 64)])
def test_an_argmax_across_memory_takes_the_steps_of_cupys_threads(m, columns, threads):
    """``_get_block_specs``: 512 threads, shared among up to 32 neighbouring columns, a power of 2."""
    v, known = variant("published_gather", m=m, e=columns), machine(argmax_strided_element=1e-9)
    moved = model._decoded_across(v, known, m, columns, {})
    assert moved == {"argmax_strided_element": m * 512 / threads}


def test_a_decode_down_the_columns_is_not_bound_by_bytes():
    """Seen on an H200: 1831 us for 65 536 rows, 35 us for the bytes, 0.67 ns an element of one column."""
    seen = machine(bandwidth=4e12, argmax_strided_element=0.67e-9)
    found = model.predict(variant("published_gather", m=1 << 16), seen)
    assert found.seconds == pytest.approx(1831e-6, rel=0.3)
    measured = machine(bandwidth=4e12, argmax_strided_element=0.67e-9, argmax_across_item=28e-9)
    assert model.predict(variant("published_gather", m=1 << 16), measured).seconds > found.seconds


def test_a_decode_along_the_rows_takes_a_remainder_an_element_beside_its_bytes():
    known = machine(bandwidth=4e12, call=0.0, remainder_element=1e-12)
    del known.costs["cupy", "argmax_contiguous_element"]
    found = model.predict(variant("argmax_take", geometry=CORRECTED, m=4096), known)
    elements = 4096 * 50_000
    assert found.seconds == pytest.approx(elements * (4 / 4e12 + 1e-12), rel=0.05)


def test_few_rows_decode_no_faster_than_one_block():
    costs = {"argmax_contiguous_element": 4e-12, "argmax_block_element": 1e-9}
    known = machine(bandwidth=1e15, call=0.0, **costs)
    few = model.predict(variant("argmax_take", geometry=CORRECTED, m=64), known)
    many = model.predict(variant("argmax_take", geometry=CORRECTED, m=4096), known)
    assert few.seconds == pytest.approx(50_000 * 1e-9, rel=0.01)
    assert many.seconds == pytest.approx(4096 * 50_000 * 4e-12, rel=0.01)


def test_numpy_decodes_far_columns_at_their_own_cost():
    costs = {"argmax_strided_element": 1e-9, "argmax_far_element": 5e-9}
    known = machine("numpy", bandwidth=1e15, call=0.0, **costs)
    near, far = (model.predict(variant("published_gather", "numpy", m=m), known) for m in (2048, 1 << 16))
    assert near.seconds == pytest.approx(2048 * 300 * 1e-9, rel=1e-3)
    assert far.seconds == pytest.approx((1 << 16) * 300 * 5e-9, rel=1e-3)


def test_numpy_rows_at_random_cost_what_their_memory_costs():
    rows = {"row_cached_item": 1e-7, "row_last_item": 2e-7, "row_memory_item": 4e-7}
    known = machine("numpy", bandwidth=1e15, call=0.0, **rows)
    for m, row in ((64, 1e-7), (4096, 2e-7), (1 << 14, 4e-7)):
        found = model.predict(variant("take", "numpy", CORRECTED, m=m), known)
        assert found.seconds == pytest.approx(m * 1200 / 1024 * row), m


def test_a_dense_product_packs_its_operands_on_numpy_and_fills_its_tiles_on_cupy():
    v = variant("dense_dot", "numpy", CORRECTED, m=64)
    operands = 4 * (64 * 50_000 + 50_000 * 300)
    found = model.predict(v, machine("numpy", call=0.0))
    assert found.seconds == pytest.approx(2 * 64 * 50_000 * 300 / 1e13 + 2 * operands / 1e12)
    on_device = model.predict(
        variant("dense_dot", geometry=CORRECTED, m=64), machine(bandwidth=1e15, call=0.0)
    )
    assert on_device.seconds == pytest.approx(2 * 128 * 50_000 * 320 / 1e13)


def test_a_sparse_product_on_cupy_turns_the_table_and_drags_sectors_along():
    v = variant("sparse_dot", geometry=CORRECTED, m=1 << 16)
    rows = (1 << 16) * 300
    found = model.predict(v, machine(call=0.0))
    assert found.seconds == pytest.approx((2 * 50_000 * 1200 + 32 * rows + 2 * 4 * rows) / 1e12)
    slow = model.predict(v, machine(call=0.0, csr_element=1e-9))
    assert slow.seconds == pytest.approx(2 * 50_000 * 1200 / 1e12 + rows * 1e-9)


def test_a_wait_amid_work_replaces_the_idle_one_where_it_was_measured():
    known = machine(bandwidth=1e30, wait_item=30 * MICRO, any_array=20 * MICRO)
    found = model.predict(variant("published_loop"), known)
    assert found.seconds == pytest.approx(300 * (20 + 30) * MICRO + (3 * 300 - 1) * 10 * MICRO)
    assert model.reached(variant("published_loop"), known) == model.reached(
        variant("published_loop"), machine()
    )


def test_a_kernel_of_a_graph_costs_its_start_and_its_bytes():
    v = variant("cuda_graph", geometry=CORRECTED)
    plain = model.predict(v, machine()).device_seconds
    assert model.predict(v, machine(graph_node_item=MICRO)).device_seconds == pytest.approx(
        plain + MICRO / GRAPH_LANES
    )


def test_a_prediction_names_what_it_spends_its_time_on():
    assert model.predict(variant("published_loop"), machine(vstack_two=1e-3)).largest == "vstack_two"
