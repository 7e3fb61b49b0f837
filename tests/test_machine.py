"""Provenance: parsers on recorded text, NVML through a stand-in, and everything for real on this machine."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onehot import machine

XEON = """\
processor\t: 0
model name\t: Intel(R) Xeon(R)   Platinum 8480C
cpu MHz\t\t: 2000.000
physical id\t: 0
core id\t\t: 0
flags\t\t: fpu sse2 hypervisor avx512f

processor\t: 1
model name\t: Intel(R) Xeon(R)   Platinum 8480C
cpu MHz\t\t: 3100.500
physical id\t: 0
core id\t\t: 0
flags\t\t: fpu sse2 hypervisor avx512f

processor\t: 2
model name\t: Intel(R) Xeon(R)   Platinum 8480C
cpu MHz\t\t: unknown
physical id\t: 1
core id\t\t: 0
flags\t\t: fpu sse2 hypervisor avx512f
"""
GRACE = "processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n\nprocessor\t: 1\n"
POWER = (
    "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t\t: 3800.000000MHz\n\ntimebase\t: 512000000\n"
)


def describe_json(section: Any) -> None:
    """Fail unless JSON can hold the section as it is, without NaN."""
    assert json.loads(json.dumps(section, allow_nan=False)) == section


# --- Text of /proc, /sys and git -------------------------------------------------------------------------


def test_cpuinfo_counts_processors_and_distinct_cores() -> None:
    cpu = machine.parse_cpuinfo(XEON)
    assert cpu.model == "Intel(R) Xeon(R) Platinum 8480C"
    assert (cpu.logical_cores, cpu.physical_cores, cpu.hypervisor) == (3, 2, True)
    assert cpu.frequency_mhz == {0: 2000.0, 1: 3100.5}


@pytest.mark.parametrize(
    ("text", "model", "logical"),
    [(GRACE, "Arm implementer 0x41 part 0xd4f", 2), (POWER, "POWER9, altivec supported", 1)],
)
def test_cpuinfo_of_other_architectures_names_the_model_and_admits_the_rest(
    text: str, model: str, logical: int
) -> None:
    cpu = machine.parse_cpuinfo(text)
    assert (cpu.model, cpu.logical_cores, cpu.physical_cores, cpu.hypervisor) == (model, logical, None, None)


@given(st.text())
def test_no_text_makes_a_parser_raise(text: str) -> None:
    machine.parse_cpuinfo(text)
    machine.parse_kib_fields(text)
    machine.parse_size(text)
    machine.parse_ranges(text)
    machine.bracketed(text)
    machine.limit_in_cores(text)
    machine.parse_git_status(text)
    machine.loaded_library(text, "libcublas")


def test_kib_fields_are_bytes_and_other_lines_are_left_out() -> None:
    text = "MemTotal:       24684084 kB\nHugePages_Total:       0\nVmRSS:\t    1752 kB\nActive(anon):  8 kB"
    assert machine.parse_kib_fields(text) == {
        "MemTotal": 24684084 * 1024,
        "VmRSS": 1752 * 1024,
        "Active(anon)": 8192,
    }


@pytest.mark.parametrize(
    ("text", "size"),
    [("48K", 49152), ("2M", 2 << 20), ("1G", 1 << 30), ("512", 512), ("max", None), ("", None)],
)
def test_sizes(text: str, size: int | None) -> None:
    assert machine.parse_size(text) == size


@given(st.sets(st.integers(0, 300)))
def test_ranges_read_back_what_was_written(numbers: set[int]) -> None:
    assert machine.parse_ranges(machine.compact_ranges(numbers)) == sorted(numbers)


def test_ranges_are_compact() -> None:
    assert machine.compact_ranges([5, 0, 1, 2, 8, 9]) == "0-2,5,8-9"
    assert machine.parse_ranges("all of them") == []


def test_kernel_choices_and_limits() -> None:
    assert machine.bracketed("always [madvise] never") == "madvise"
    assert machine.bracketed("always") is None
    assert machine.limit_in_cores("150000 100000") == 1.5
    assert machine.limit_in_cores("max 100000") is None


@pytest.mark.parametrize(
    ("release", "version", "markers", "name"),
    [
        ("5.15.167.4-microsoft-standard-WSL2", "#1 SMP", ["/.dockerenv"], "wsl"),
        ("4.4.0", "#1 SMP Sun Jan 10 15:06:54 PST 2016", [], "gvisor"),
        ("6.8.0-generic", "#1 SMP", ["/run/.containerenv"], "podman"),
        ("6.8.0-generic", "#1 SMP", [], None),
    ],
)
def test_sandbox(release: str, version: str, markers: list[str], name: str | None) -> None:
    assert machine.sandbox(release, version, markers) == name


@pytest.mark.parametrize(
    ("lines", "section"),
    [
        (["# branch.oid 1234abcd", "# branch.head main"], {"revision": "1234abcd", "dirty": False}),
        (["# branch.oid 1234abcd", "1 .M N... 100644 a b c file"], {"revision": "1234abcd", "dirty": True}),
        (["# branch.oid 1234abcd", "? untracked"], {"revision": "1234abcd", "dirty": False}),
    ],
)
def test_git_status(lines: list[str], section: dict[str, Any]) -> None:
    assert machine.parse_git_status("\n".join(lines)) == section


@pytest.mark.parametrize(("text", "reason"), [("# branch.oid (initial)", "no commit yet"), ("", "no commit")])
def test_git_status_without_a_commit_has_a_reason(text: str, reason: str) -> None:
    section = machine.parse_git_status(text)
    assert section["revision"] is None and reason in section["unavailable"]


def test_loaded_library_is_not_taken_for_its_neighbour() -> None:
    maps = (
        "7f00-7f01 r-xp 00000000 08:01 11   /opt/cuda/lib/libcublasLt.so.12\n"
        "7f02-7f03 r-xp 00000000 08:01 12   /opt/cuda/lib/libcublas.so.12.8.4\n"
    )
    assert machine.loaded_library(maps, "libcublas") == "/opt/cuda/lib/libcublas.so.12.8.4"
    assert machine.loaded_library("", "libcublas") is None


# --- This machine, for real ------------------------------------------------------------------------------


def test_host_describes_this_machine() -> None:
    host = machine.host()
    describe_json(host)
    assert host["hostname"] and host["os"]
    assert host["logical_cores"] >= host["affinity_count"] >= 1
    assert machine.parse_ranges(host["affinity_cpus"]) == sorted(os.sched_getaffinity(0))
    assert host["memory_total_bytes"] > 100 << 20


def test_load_counts_this_process() -> None:
    before = machine.load()
    sum(i * i for i in range(200_000))
    after = machine.load()
    describe_json(after)
    assert after.keys() == before.keys()
    assert after["resident_bytes"] > 1 << 20 and after["threads"] >= 1
    assert after["user_cpu_seconds"] >= before["user_cpu_seconds"] > 0
    assert after["voluntary_context_switches"] >= before["voluntary_context_switches"]


def test_settings_describe_the_clock() -> None:
    settings = machine.settings()
    describe_json(settings)
    clock = settings["perf_counter"]
    assert 0 < clock["smallest_step_seconds"] <= clock["median_step_seconds"] < 1e-3


def test_software_describes_numpy_and_the_threads_in_force() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")
    pytest.importorskip("numpy")
    with threadpoolctl.threadpool_limits(1):
        software = machine.software("numpy")
    describe_json(software)
    assert software["backend"] == "numpy"
    assert software["numpy"]["version"] == sys.modules["numpy"].__version__
    if software["numpy"]["blas"]:
        assert software["numpy"]["blas"]["num_threads"] == 1
    # A wheel's own folder may stand before the name (SciPy brings a BLAS too); none of this machine does.
    assert all(re.fullmatch(r"([a-z]+\.libs/)?[^/]+", pool["library"]) for pool in software["thread_pools"])


def test_software_does_not_import_what_it_describes() -> None:
    code = (
        "import sys; from onehot import machine as m; print(m.software('')['numpy'], 'numpy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=_import_path(), capture_output=True, text=True, check=True
    )
    assert "unavailable" in done.stdout and done.stdout.strip().endswith("False")


def test_import_is_cheap() -> None:
    code = "import sys; from onehot import machine; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=_import_path(), capture_output=True, text=True, check=True
    )
    heavy = {"numpy", "pandas", "pydantic", "psutil", "pynvml", "threadpoolctl", "importlib.metadata"}
    assert not heavy & set(done.stdout.split())


def _import_path() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(machine.__file__).parents[1])}


def test_nothing_raises_where_proc_and_sys_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Any:
        raise OSError("not here")

    monkeypatch.setattr(machine, "read_text", lambda path: None)
    monkeypatch.setitem(sys.modules, "psutil", None)
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    for name in ("getloadavg", "sched_getaffinity", "sysconf"):
        monkeypatch.setattr(os, name, refuse, raising=False)
    host, load = machine.host(), machine.load()
    assert (
        host["physical_cores"]
        is host["memory_total_bytes"]
        is host["l3_bytes"]
        is host["affinity_cpus"]
        is None
    )
    assert load["resident_bytes"] is load["load_average_1min"] is load["cpu_frequency_mhz"] is None
    assert machine.software("numpy")["thread_pools"] is None
    assert machine.settings()["aslr_disabled"] is None


def test_psutil_answers_where_proc_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psutil")
    monkeypatch.setattr(machine, "read_text", lambda path: None)
    assert machine.host()["memory_total_bytes"] > 100 << 20
    assert machine.load()["resident_bytes"] > 1 << 20


@pytest.mark.parametrize(("own", "expected"), [("max 100000", 2.0), ("50000 100000", 0.5)])
def test_the_tightest_limit_on_the_way_up_counts(
    own: str, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "/proc/self/cgroup": "0::/job/step",
        "/sys/fs/cgroup/job/step/cpu.max": own,
        "/sys/fs/cgroup/job/cpu.max": "200000 100000",
        "/sys/fs/cgroup/job/step/memory.max": "max",
        "/sys/fs/cgroup/job/memory.max": "1073741824",
        "/sys/fs/cgroup/job/step/cpu.stat": "usage_usec 5\nnr_throttled 0",
        "/sys/fs/cgroup/job/cpu.stat": "usage_usec 5\nnr_throttled 17",
    }
    monkeypatch.setattr(machine, "read_text", files.get)
    host = machine.host()
    assert host["cgroup_cpu_limit_cores"] == expected
    assert host["cgroup_memory_limit_bytes"] == 1 << 30
    assert machine.load()["cgroup_throttled_count"] == 17


# --- The GPU, with a stand-in for NVML -------------------------------------------------------------------


class FakeNvmlError(Exception):
    """Stands for pynvml.NVMLError."""


def _refuse(*_: object) -> Any:
    raise FakeNvmlError("Not Supported")


def fake_nvml(**replaced: Callable[..., Any]) -> types.ModuleType:
    """Return a stand-in for pynvml with one H200, some of whose functions are replaced."""
    handles = {0: "board", "GPU-1": "board", "MIG-1": "slice", "0000:3B:00.0": "board"}

    def find(identifier: int | str) -> str:
        return handles[identifier] if identifier in handles else str(_refuse())

    answers: dict[str, Callable[..., Any]] = {
        "nvmlInit": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: b"580.105.08",
        "nvmlSystemGetCudaDriverVersion_v2": lambda: 13000,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": find,
        "nvmlDeviceGetHandleByUUID": find,
        "nvmlDeviceGetHandleByPciBusId": find,
        "nvmlDeviceIsMigDeviceHandle": lambda handle: handle == "slice",
        "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": lambda handle: "board",
        "nvmlDeviceGetName": lambda handle: "NVIDIA H200" + (" MIG 1g.18gb" if handle == "slice" else ""),
        "nvmlDeviceGetUUID": lambda handle: "MIG-1" if handle == "slice" else "GPU-1",
        "nvmlDeviceGetPciInfo": lambda handle: SimpleNamespace(busId=b"00000000:3b:00.0"),
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(
            total=(16 << 30) if handle == "slice" else 143771 << 20, used=1 << 30
        ),
        "nvmlDeviceGetCudaComputeCapability": lambda handle: (9, 0),
        "nvmlDeviceGetEccMode": lambda handle: [1, 0],
        "nvmlDeviceGetMigMode": lambda handle: [0, 0],
        "nvmlDeviceGetPersistenceMode": lambda handle: 1,
        "nvmlDeviceGetEnforcedPowerLimit": lambda handle: 700_000,
        "nvmlDeviceGetMaxClockInfo": lambda handle, clock: {1: 1980, 2: 3201}[clock],
        "nvmlDeviceGetClockInfo": lambda handle, clock: {1: 1755, 2: 3201}[clock],
        "nvmlDeviceGetPerformanceState": lambda handle: 0,
        "nvmlDeviceGetTemperatureV": lambda handle, sensor: 41,
        "nvmlDeviceGetPowerUsage": lambda handle: 121_500,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 0x4,
        "nvmlDeviceGetViolationStatus": lambda handle, policy: SimpleNamespace(violationTime=2_000_000_000),
        "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=97, memory=12),
        "nvmlDeviceGetComputeRunningProcesses": lambda handle: [object()],
    }
    module = types.ModuleType("pynvml")
    vars(module).update(answers | replaced, NVMLError=FakeNvmlError)
    return module


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    module = fake_nvml()
    monkeypatch.setitem(sys.modules, "pynvml", module)
    yield module


@pytest.mark.parametrize("identifier", [0, "GPU-1", "0000:3B:00.0"])
def test_gpu_is_found_by_each_of_its_names(identifier: int | str, nvml: types.ModuleType) -> None:
    gpu = machine.gpu(identifier)
    describe_json(gpu)
    assert gpu == {
        "name": "NVIDIA H200",
        "uuid": "GPU-1",
        "pci_bus_id": "0000:3B:00.0",
        "driver_version": "580.105.08",
        "cuda_driver_version": "13.0",
        "memory_total_bytes": 143771 << 20,
        "compute_capability": "9.0",
        "ecc_enabled": True,
        "mig_enabled": False,
        "is_mig_slice": False,
        "power_limit_watts": 700.0,
        "sm_clock_max_mhz": 1980,
        "memory_clock_max_mhz": 3201,
        "persistence_enabled": True,
    }


def test_gpu_state_decodes_what_slows_the_clock(nvml: types.ModuleType) -> None:
    state = machine.gpu_state("GPU-1")
    describe_json(state)
    assert (state["sm_clock_mhz"], state["temperature_celsius"], state["power_watts"]) == (1755, 41, 121.5)
    assert state["throttle_reasons"] == ["sw_power_cap"]
    assert state["power_throttled_seconds"] == state["thermal_throttled_seconds"] == 2.0
    assert state["compute_processes"] == 1


def test_a_mig_slice_has_its_own_memory_and_its_boards_clocks(nvml: types.ModuleType) -> None:
    gpu = machine.gpu("MIG-1")
    assert (gpu["name"], gpu["uuid"], gpu["is_mig_slice"]) == ("NVIDIA H200 MIG 1g.18gb", "MIG-1", True)
    assert gpu["memory_total_bytes"] == 16 << 30
    assert gpu["sm_clock_max_mhz"] == 1980


@pytest.mark.parametrize("identifier", [7, "GPU-none", "0000:FF:00.0", "", "nonsense"])
def test_an_unknown_gpu_is_unavailable_with_the_name_asked_for(
    identifier: int | str, nvml: types.ModuleType
) -> None:
    for section in (machine.gpu(identifier), machine.gpu_state(identifier)):
        assert list(section) == ["unavailable"]
        assert repr(identifier) in section["unavailable"]


def test_every_question_may_be_refused(nvml: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in vars(nvml) if re.match(r"nvml(System|DeviceGet(?!Handle)|DeviceIs)", name)]:
        monkeypatch.setattr(nvml, name, _refuse)
    assert {value for name, value in machine.gpu(0).items() if name != "is_mig_slice"} == {None}
    assert set(machine.gpu_state(0).values()) == {None}
    assert machine.visible_gpus() == {"unavailable": "NVML finds no GPU"}


def test_a_library_older_than_its_functions_is_asked_the_old_way(
    nvml: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(nvml, "nvmlDeviceGetTemperatureV")
    monkeypatch.delattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons")
    monkeypatch.delattr(nvml, "nvmlDeviceIsMigDeviceHandle")
    monkeypatch.setattr(nvml, "nvmlDeviceGetTemperature", lambda handle, sensor: 55, raising=False)
    monkeypatch.setattr(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", lambda handle: 0, raising=False)
    state = machine.gpu_state(0)
    assert (state["temperature_celsius"], state["throttle_reasons"]) == (55, [])


def test_visible_gpus_are_listed(nvml: types.ModuleType) -> None:
    devices = machine.visible_gpus()["devices"]
    assert devices == [{"index": 0, "uuid": "GPU-1", "pci_bus_id": "0000:3B:00.0", "name": "NVIDIA H200"}]


@pytest.mark.parametrize("module", [None, fake_nvml(nvmlInit=_refuse)], ids=["no nvidia-ml-py", "no driver"])
def test_without_nvml_everything_about_gpus_is_unavailable(
    module: types.ModuleType | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", module)
    for section in (machine.gpu(0), machine.gpu_state(0), machine.visible_gpus()):
        assert list(section) == ["unavailable"] and len(section["unavailable"]) > 20


def test_this_machine_has_a_gpu_or_a_reason() -> None:
    section = machine.visible_gpus()
    assert section.get("devices") or section["unavailable"]
    describe_json(machine.gpu(0))
    describe_json(machine.gpu_state(0))


@pytest.mark.gpu
def test_the_versions_of_a_real_cupy_are_all_found() -> None:
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no CUDA device")
    matrix = cupy.ones((16, 16), cupy.float32)
    assert float((matrix @ matrix)[0, 0]) == 16
    section = machine.software("cupy")["cupy"]
    describe_json(section)
    assert section["missing"] == {}
    stated = cupy.cuda.cublas.getVersion(cupy.cuda.device.get_cublas_handle())
    major, minor, patch = map(int, section["cublas_version"].split("."))
    assert stated == major * 10_000 + minor * 100 + patch
    assert section["distributions"]


@pytest.mark.gpu
def test_a_real_gpu_answers_under_all_its_names() -> None:
    section = machine.visible_gpus()
    if "unavailable" in section:
        pytest.skip(section["unavailable"])
    device = section["devices"][0]
    by_name = [machine.gpu(device[name]) for name in ("index", "uuid", "pci_bus_id")]
    assert by_name[0] == by_name[1] == by_name[2]
    assert by_name[0]["memory_total_bytes"] > 1 << 30 and by_name[0]["compute_capability"]
    state = machine.gpu_state(device["uuid"])
    assert state["sm_clock_mhz"] > 0 and state["throttle_reasons"] is not None


@pytest.mark.parametrize(
    ("bitmask", "names"),
    [
        (0, []),
        (0x1, ["gpu_idle"]),
        (0x24, ["sw_power_cap", "sw_thermal_slowdown"]),
        (0x48, ["hw_slowdown", "hw_thermal_slowdown"]),
        (1 << 40, ["unknown_0x10000000000"]),
    ],
)
def test_throttle_reasons(bitmask: int, names: list[str]) -> None:
    assert machine.throttle_reasons(bitmask) == names


@given(st.integers(0, 2**64 - 1))
def test_throttle_reasons_name_every_bit_once(bitmask: int) -> None:
    names = machine.throttle_reasons(bitmask)
    assert len(names) == len(set(names)) == bitmask.bit_count()


@pytest.mark.parametrize(("version", "text"), [(12080, "12.8"), (13000, "13.0"), (11020, "11.2"), (0, None)])
def test_cuda_versions(version: int, text: str | None) -> None:
    assert machine.cuda_version_text(version) == text


# --- Software and settings -------------------------------------------------------------------------------


def fake_cupy(monkeypatch: pytest.MonkeyPatch, nvrtc_version: Callable[[], tuple[int, int]]) -> None:
    cupy = types.ModuleType("cupy")
    runtime = SimpleNamespace(runtimeGetVersion=lambda: 12090, driverGetVersion=lambda: 13000)
    cuda = SimpleNamespace(runtime=runtime, nvrtc=SimpleNamespace(getVersion=nvrtc_version))
    vars(cupy).update(__version__="14.2.0", cuda=cuda)
    monkeypatch.setitem(sys.modules, "cupy", cupy)


def test_two_cupy_packages_are_both_listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_cupy(monkeypatch, lambda: (12, 9))
    for name in ("cupy_cuda12x-14.2.0", "cupy_cuda13x-14.1.0", "cupy_xarray-0.1.4"):
        (tmp_path / f"{name}.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    cupy = machine.software("cupy")["cupy"]
    describe_json(cupy)
    assert cupy["distributions"] == {"cupy-cuda12x": "14.2.0", "cupy-cuda13x": "14.1.0"}
    assert (cupy["cuda_runtime_version"], cupy["cuda_driver_version"]) == ("12.9", "13.0")
    assert cupy["nvrtc_version"] == "12.9"


def test_a_missing_nvrtc_is_a_problem_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_found() -> tuple[int, int]:
        raise RuntimeError("CuPy failed to load libnvrtc.so.12")

    fake_cupy(monkeypatch, not_found)
    monkeypatch.setattr(machine, "read_text", lambda path: None)  # the process may have loaded a real cuBLAS
    cupy = machine.software("cupy")["cupy"]
    assert cupy["nvrtc_version"] is None
    assert cupy["missing"]["nvrtc_version"] == "RuntimeError: CuPy failed to load libnvrtc.so.12"
    assert cupy["cublas_version"] is None and "not loaded" in cupy["missing"]["cublas_version"]
    assert cupy["cuda_runtime_version"] == "12.9"


def test_libraries_that_are_imported_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="2.11.0+cu130"))
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    software = machine.software("torch")
    assert software["torch_version"] == "2.11.0+cu130"
    assert "jax_version" not in software


def test_the_first_folder_on_the_path_wins_and_missing_ones_do_not_matter(tmp_path: Path) -> None:
    for folder, version in (("first", "9.27.1"), ("second", "8.0.0")):
        (tmp_path / folder / f"snakemake-{version}.dist-info").mkdir(parents=True)
    (tmp_path / "second" / "snakemake_logger_plugin_rich-0.5.1.dist-info").mkdir()
    (tmp_path / "second" / "Old_Style-1.0-py3.11.egg-info").mkdir()
    paths = [str(tmp_path / name) for name in ("absent", "first", "second")]
    assert machine.distribution_versions(re.compile("snakemake"), paths) == {"snakemake": "9.27.1"}
    assert machine.distribution_versions(re.compile("old-style"), paths) == {"old-style": "1.0"}


def test_only_the_settings_that_matter_are_reported_and_no_secret() -> None:
    environment = {
        "CUPY_TF32": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "4",
        "SLURM_JOB_ID": "17",
        "SLURM_JOB_ACCOUNT": "somebody",
        "HOME": "/root",
        "AWS_SECRET_ACCESS_KEY": "x",
        "NVIDIA_API_KEY": "nvapi-x",
    }
    shown, withheld = machine.reported_environment(environment)
    assert shown == {
        "CUDA_VISIBLE_DEVICES": "",
        "CUPY_TF32": "1",
        "OMP_NUM_THREADS": "4",
        "SLURM_JOB_ID": "17",
    }
    assert withheld == ["NVIDIA_API_KEY"]


# --- The study -------------------------------------------------------------------------------------------


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(root), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "tracked").write_text("one")
    git(tmp_path, "add", "tracked")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    return tmp_path


def test_only_tracked_changes_make_a_study_dirty(repository: Path) -> None:
    clean = {"revision": git(repository, "rev-parse", "HEAD"), "dirty": False}
    (repository / "untracked").write_text("results")
    assert machine.study(repository) == clean
    (repository / "tracked").write_text("two")
    assert machine.study(repository) == clean | {"dirty": True}


def test_a_changed_result_does_not_make_a_study_dirty(repository: Path) -> None:
    (repository / "results").mkdir()
    (repository / "results" / "table").write_text("one")
    git(repository, "add", "results")
    git(repository, "commit", "--quiet", "-m", "second")
    (repository / "results" / "table").write_text("two")
    assert machine.study(repository)["dirty"] is False
    (repository / "tracked").write_text("two")
    assert machine.study(repository)["dirty"] is True


def test_a_study_unpacked_inside_a_repository_does_not_take_its_revision(repository: Path) -> None:
    (repository / "study").mkdir()
    section = machine.study(repository / "study")
    assert section["revision"] is section["dirty"] is None
    assert "not a git repository" in section["unavailable"]


def test_a_hooks_environment_does_not_mislead(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path_factory.mktemp("other")))
    assert machine.study(repository)["revision"]


def test_a_missing_folder_and_a_missing_git_have_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "No such file" in machine.study(tmp_path / "absent")["unavailable"]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.study(tmp_path)["unavailable"].startswith("git cannot be run")


def test_a_git_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "git"
    script.write_text("#!/bin/sh\nexec sleep 20\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert "within 0.2 seconds" in machine.study(tmp_path, timeout_seconds=0.2)["unavailable"]


def test_utc_now_has_microseconds_and_a_z() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", machine.utc_now())


# --- Fingerprints ----------------------------------------------------------------------------------------

HOST = {
    "hostname": "a",
    "cpu_model": "Xeon",
    "physical_cores": 8,
    "logical_cores": 16,
    "memory_total_bytes": 1,
}
H200 = {
    "name": "NVIDIA H200",
    "uuid": "GPU-1",
    "memory_total_bytes": 143771 << 20,
    "compute_capability": "9.0",
}
values = st.none() | st.integers() | st.text() | st.booleans()


def test_two_nodes_of_a_kind_share_a_fingerprint() -> None:
    other_host = HOST | {
        "hostname": "b",
        "memory_total_bytes": 2,
        "affinity_count": 4,
        "kernel_release": "6.9",
    }
    other_gpu = H200 | {"uuid": "GPU-2", "driver_version": "999"}
    here, there = machine.fingerprint(HOST, H200), machine.fingerprint(other_host, other_gpu)
    assert here == there
    assert machine.fingerprint_digest(here) == machine.fingerprint_digest(there)
    assert machine.fingerprint_difference(here, there) == []


@pytest.mark.parametrize(
    ("mebibytes", "gib"),
    [(81251, 80), (81920, 80), (40536, 40), (40960, 40), (143771, 142), (4864, 6), (16384, 16)],
)
def test_a_drivers_reserve_does_not_change_the_memory_of_a_gpu(mebibytes: int, gib: int) -> None:
    assert machine.fingerprint(HOST, H200 | {"memory_total_bytes": mebibytes << 20})["gpu_memory_gib"] == gib


def test_an_unavailable_gpu_counts_as_none() -> None:
    assert machine.fingerprint(HOST, {"unavailable": "no driver"}) == machine.fingerprint(HOST, None)


def test_difference_names_the_field_and_both_values() -> None:
    recorded = machine.fingerprint(HOST, H200)
    here = machine.fingerprint(HOST, H200 | {"name": "NVIDIA A100"})
    assert machine.fingerprint_difference(recorded, here) == ["gpu_name: NVIDIA H200, here NVIDIA A100"]
    none = machine.fingerprint_difference(recorded, machine.fingerprint(HOST, None))
    assert "gpu_name: NVIDIA H200, here none" in none and len(none) == 3


@given(st.dictionaries(st.text(), values), st.randoms(use_true_random=False))
def test_digest_does_not_depend_on_order(fields: dict[str, Any], random: Any) -> None:
    items = list(fields.items())
    random.shuffle(items)
    digest = machine.fingerprint_digest(dict(items))
    assert digest == machine.fingerprint_digest(fields)
    assert re.fullmatch("[0-9a-f]{12}", digest)


@given(st.dictionaries(st.text(), values), st.dictionaries(st.text(), values.filter(lambda v: v is not None)))
def test_fingerprints_differ_exactly_where_a_line_says_so(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    merged = first | second
    changed = {name for name in merged if first.get(name) != merged.get(name)}
    assert len(machine.fingerprint_difference(first, merged)) == len(changed)


def test_digest_is_the_same_in_every_process_and_version() -> None:
    # Folders of committed results carry it: a change of this value orphans them.
    assert machine.fingerprint_digest(machine.fingerprint(HOST, H200)) == "da91ae008c0c"


def test_no_number_is_nan() -> None:
    numbers = [value for value in {**machine.host(), **machine.load()}.values() if isinstance(value, float)]
    assert all(math.isfinite(value) for value in numbers)
