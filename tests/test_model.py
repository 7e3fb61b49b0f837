"""The model finds planted costs again, and its structures reach the device as real ledgers say."""

import pytest
from onehot import implementations, model
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
    names = {name for name in model.CUPY_CALLS if name != "python_call"}
    rates = {
        name: Cost(bandwidth, "bytes_per_second")
        for name in (
            "copy_bandwidth", "copy_bandwidth_cached", "read_bandwidth", "write_bandwidth",
            "l2_read_bandwidth", "first_touch_bandwidth", "host_to_device_pageable", "host_to_device_pinned",
            "device_to_host_pageable", "device_to_host_pinned",
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
    names = {entry.name for backend, entry in implementations.entries() if backend in ("numpy", "cupy")}
    assert names <= set(model.STRUCTURES)


@pytest.mark.parametrize("backend", ["numpy", "cupy"])
def test_every_structure_predicts_a_finite_time(backend):
    for on, entry in implementations.entries():
        if on == backend:
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


def test_remainders_bound_cupys_own_take_where_their_cost_is_known():
    plain = machine()
    known = machine(remainder_element=1e-12)
    v = variant("fancy_index", geometry=CORRECTED, m=1 << 20)
    assert model.predict(v, known).seconds == pytest.approx(2 * (1 << 20) * 300 * 1e-12, rel=1e-6) or (
        model.predict(v, known).seconds == model.predict(v, plain).seconds
    )
    slower = machine(remainder_element=1e-11)
    assert model.predict(v, slower).seconds == pytest.approx(2 * (1 << 20) * 300 * 1e-11)
    wide = variant("take_wide", geometry=CORRECTED, m=1 << 20)
    assert model.predict(wide, slower).seconds < model.predict(v, slower).seconds / 2
