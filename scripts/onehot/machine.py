"""Provenance of this machine, its GPU, its software and this run.

Every function returns a plain dict that JSON can hold, with the unit in the name. A field that cannot be
found is ``None``; a section that cannot be had is ``{"unavailable": "why"}``. Nothing here raises because a
GPU, a driver, a permission or a file of ``/proc`` is missing: a record without a temperature is still a
record.

The functions run inside a timed job's process, before or after the timed region, so they must start
cheaply: only the standard library is imported here. ``/proc`` and ``/sys`` are read directly, because
importing psutil costs more than everything it would be asked; it is the fallback where they do not exist.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import itertools
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

__all__ = [
    "CpuInfo",
    "bracketed",
    "compact_ranges",
    "cuda_version_text",
    "distribution_versions",
    "fingerprint",
    "fingerprint_difference",
    "fingerprint_digest",
    "gpu",
    "gpu_state",
    "host",
    "limit_in_cores",
    "load",
    "loaded_library",
    "parse_cpuinfo",
    "parse_git_status",
    "parse_kib_fields",
    "parse_ranges",
    "parse_size",
    "pci_bus_id_text",
    "reported_environment",
    "sandbox",
    "settings",
    "software",
    "study",
    "throttle_reasons",
    "utc_now",
    "visible_gpus",
]

Section = dict[str, Any]
T = TypeVar("T")

GIB = 1 << 30

# nvml.h, nvmlClocksEventReasons; written out because the names changed ("throttle", then "event") and the
# numbers did not.
CLOCK_EVENT_REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}
NVML_CLOCK_SM, NVML_CLOCK_MEMORY = 1, 2
NVML_TEMPERATURE_GPU = 0
NVML_POLICY_POWER, NVML_POLICY_THERMAL = 0, 1

REPORTED_PREFIXES = (
    "CUPY_",
    "CUDA_",
    "NVIDIA_",
    "OMP_",
    "OPENBLAS_",
    "MKL_",
    "NUMEXPR_",
    "XLA_",
    "JAX_",
    "TORCH_",
    "PYTORCH_",
    "NPY_",
)
REPORTED_NAMES = ("SLURM_JOB_ID", "SLURM_JOB_PARTITION", "SLURMD_NODENAME", "PYTHONHASHSEED")
# Records are published, and NVIDIA_API_KEY has one of the prefixes.
SECRET_WORDS = frozenset(
    {"KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS", "AUTH"}
)

CUPY_DISTRIBUTION = re.compile(r"cupy(-cuda\w+|-rocm[\w-]+)?")


# --- Reading text that the kernel and git write --------------------------------------------------------


def read_text(path: str) -> str | None:
    """Return the stripped text of a file of ``/proc`` or ``/sys``, or None where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return None


@dataclass(frozen=True)
class CpuInfo:
    """What ``/proc/cpuinfo`` says of the whole machine; None where it says nothing."""

    model: str | None = None
    logical_cores: int | None = None
    physical_cores: int | None = None
    hypervisor: bool | None = None
    frequency_mhz: Mapping[int, float] | None = None


def parse_cpuinfo(text: str) -> CpuInfo:
    """Read the text of ``/proc/cpuinfo`` (x86, Arm, POWER and RISC-V spell it differently)."""
    blocks = [_colon_fields(block) for block in re.split(r"\n\s*\n", text)]
    processors = [block for block in blocks if block.get("processor", "").isdigit()]
    if not processors:
        return CpuInfo()
    first = processors[0]
    # A sandbox that hides one of the two ids would make every core look like the same one.
    cores = {(p["physical id"], p["core id"]) for p in processors if {"physical id", "core id"} <= p.keys()}
    frequencies = {int(p["processor"]): _number(p.get("cpu MHz")) for p in processors}
    return CpuInfo(
        model=_cpu_model(first),
        logical_cores=len(processors),
        physical_cores=len(cores) or None,
        hypervisor="hypervisor" in first["flags"].split() if "flags" in first else None,
        frequency_mhz={cpu: mhz for cpu, mhz in frequencies.items() if mhz},
    )


def _cpu_model(processor: Mapping[str, str]) -> str | None:
    for key in ("model name", "cpu", "uarch"):
        if processor.get(key):
            return " ".join(processor[key].split())
    if "CPU part" in processor:  # Arm gives numbers in place of a name
        return f"Arm implementer {processor.get('CPU implementer', '?')} part {processor['CPU part']}"
    return None


def _colon_fields(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def parse_kib_fields(text: str) -> dict[str, int]:
    """Return the fields that ``/proc/meminfo`` or ``/proc/self/status`` give in kB, in bytes."""
    found = re.findall(r"^(\S+?):\s+(\d+) kB\s*$", text, flags=re.MULTILINE)
    return {name: int(kib) * 1024 for name, kib in found}


def parse_size(text: str) -> int | None:
    """Return the bytes of a cache size as sysfs writes it: '48K', '2M', '512'."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text.strip())
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]] if match else None


def parse_ranges(text: str) -> list[int]:
    """Return the numbers of a kernel list: '0-2,5' gives [0, 1, 2, 5]; anything else gives []."""
    if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", text.strip()):
        return []
    spans = [part.split("-") for part in text.strip().split(",")]
    return sorted({number for span in spans for number in range(int(span[0]), int(span[-1]) + 1)})


def compact_ranges(numbers: Iterable[int]) -> str:
    """Return numbers as a kernel list: [0, 1, 2, 5] gives '0-2,5'."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


def bracketed(text: str) -> str | None:
    """Return the choice in force of a kernel setting: 'always [madvise] never' gives 'madvise'."""
    match = re.search(r"\[(\S+)\]", text)
    return match[1] if match else None


def limit_in_cores(cpu_max: str) -> float | None:
    """Return the cores that a cgroup's ``cpu.max`` allows ('200000 100000' is 2.0), None for no limit."""
    match = re.fullmatch(r"(\d+) (\d+)", cpu_max.strip())
    return int(match[1]) / int(match[2]) if match and int(match[2]) else None


def sandbox(kernel_release: str, kernel_version: str, marker_files: Collection[str]) -> str | None:
    """Name what the process is shut in, as far as cheap signs tell: 'wsl', 'gvisor', 'docker', ... or None.

    It is a hint: system calls and first touches of memory can cost more in there than on the bare machine.
    """
    if "microsoft" in kernel_release.lower():
        return "wsl"
    # gVisor answers uname with this constant, whatever kernel the host runs.
    if kernel_release == "4.4.0" and "Sun Jan 10 15:06:54 PST 2016" in kernel_version:
        return "gvisor"
    for marker, name in CONTAINER_MARKERS.items():
        if marker in marker_files:
            return name
    return None


CONTAINER_MARKERS = {"/.dockerenv": "docker", "/run/.containerenv": "podman", "/.singularity.d": "apptainer"}


def parse_git_status(text: str) -> Section:
    """Read ``git status --porcelain=v2 --branch``: one process for the revision and the changes."""
    lines = text.splitlines()
    found = [line.removeprefix("# branch.oid ") for line in lines if line.startswith("# branch.oid ")]
    if not found:
        return _no_study("git status named no commit")
    if found[0] == "(initial)":
        return _no_study("the repository has no commit yet")
    return {
        "revision": found[0],
        "dirty": any(line and not line.startswith(("#", "?", "!")) for line in lines),
    }


# --- The host ------------------------------------------------------------------------------------------


def host() -> Section:
    """Describe the machine: what stays the same from job to job.

    Returns
    -------
    dict
        Names and versions (``hostname``, ``os``, ``kernel_release``, ``architecture``, ``cpu_model``); the
        whole machine's ``physical_cores``, ``logical_cores``, ``memory_total_bytes``, ``numa_nodes`` and
        cache sizes (of one cache, not their sum); what this process may use of it (``affinity_count``,
        ``affinity_cpus`` as '0-3,8', ``cgroup_cpu_limit_cores``, ``cgroup_memory_limit_bytes``: None where
        no cgroup v2 limit was found); ``frequency_governor`` and the signs of virtualisation.
    """
    cpu = parse_cpuinfo(read_text("/proc/cpuinfo") or "")
    allowed = _affinity()
    return {
        "hostname": platform.node() or None,
        "os": _os_name(),
        "kernel_release": platform.release() or None,
        "architecture": platform.machine() or None,
        "cpu_model": cpu.model or platform.processor() or None,
        "physical_cores": cpu.physical_cores
        or _cores_of_topology()
        or _from_psutil(lambda p: p.cpu_count(logical=False)),
        "logical_cores": cpu.logical_cores or os.cpu_count(),
        "affinity_count": len(allowed) if allowed else None,
        "affinity_cpus": compact_ranges(allowed) if allowed else None,
        "cgroup_cpu_limit_cores": _least(limit_in_cores(text) for text in _cgroup_texts("cpu.max")),
        "memory_total_bytes": _memory("MemTotal", "total"),
        "cgroup_memory_limit_bytes": _least(parse_size(text) for text in _cgroup_texts("memory.max")),
        **_caches(min(allowed, default=0)),
        "numa_nodes": len(parse_ranges(read_text("/sys/devices/system/node/online") or "")) or None,
        "frequency_governor": read_text(_cpufreq(min(allowed, default=0), "scaling_governor")),
        "hypervisor": cpu.hypervisor,
        "machine_vendor": read_text("/sys/class/dmi/id/sys_vendor") or None,
        "sandbox": sandbox(
            platform.release(), platform.version(), [m for m in CONTAINER_MARKERS if os.path.exists(m)]
        ),
    }


def load() -> Section:
    """Describe what the machine and this process are doing now; take it before and after the timed region.

    Context switches and page faults count every thread of this process since it began. ``cpu_now`` is the
    processor it last ran on, ``cpu_frequency_mhz`` that one's clock (a constant on most virtual machines).
    ``cgroup_throttled_count`` counts the periods in which a CPU limit stopped the process's group.
    """
    status = read_text("/proc/self/status") or ""
    averages = _load_averages()
    cpu = _cpu_now()
    return {
        "load_average_1min": averages[0],
        "load_average_5min": averages[1],
        "load_average_15min": averages[2],
        "memory_available_bytes": _memory("MemAvailable", "available"),
        "cpu_now": cpu,
        "cpu_frequency_mhz": _frequency_mhz(cpu),
        "resident_bytes": parse_kib_fields(status).get("VmRSS")
        or _from_psutil(lambda p: p.Process().memory_info().rss),
        "threads": _integer(_colon_fields(status).get("Threads"))
        or _from_psutil(lambda p: p.Process().num_threads()),
        **_resource_usage(),
        "cgroup_throttled_count": _greatest(_throttled_count(text) for text in _cgroup_texts("cpu.stat")),
    }


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.platform()


def _affinity() -> list[int]:
    try:
        return sorted(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return []


def _cores_of_topology() -> int | None:
    online = parse_ranges(read_text("/sys/devices/system/cpu/online") or "")
    siblings = (
        read_text(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") for cpu in online
    )
    return len({text for text in siblings if text}) or None


def _caches(cpu: int) -> Section:
    wanted = {("1", "Data"): "l1d_bytes", ("2", "Unified"): "l2_bytes", ("3", "Unified"): "l3_bytes"}
    sizes: Section = {
        "l1d_bytes": _sysconf("SC_LEVEL1_DCACHE_SIZE"),
        "l2_bytes": _sysconf("SC_LEVEL2_CACHE_SIZE"),
        "l3_bytes": _sysconf("SC_LEVEL3_CACHE_SIZE"),
    }
    for index in range(8):
        folder = f"/sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
        name = wanted.get((read_text(f"{folder}/level") or "", read_text(f"{folder}/type") or ""))
        size = parse_size(read_text(f"{folder}/size") or "")
        if name and size:
            sizes[name] = size
    return sizes


def _sysconf(name: str) -> int | None:
    try:
        value = os.sysconf(name)
    except (AttributeError, ValueError, OSError):
        return None
    return value if value > 0 else None


def _cpufreq(cpu: int, name: str) -> str:
    return f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/{name}"


def _memory(proc_name: str, psutil_name: str) -> int | None:
    fields = parse_kib_fields(read_text("/proc/meminfo") or "")
    return fields.get(proc_name) or _from_psutil(lambda p: int(getattr(p.virtual_memory(), psutil_name)))


def _cgroup_texts(name: str) -> list[str]:
    # A limit may sit on any group above the process's own (SLURM sets the job's, not the step's), and
    # inside a container the path may be the host's, which is not mounted: then only the root of the mount
    # answers.
    match = re.search(r"^0::(/.*)$", read_text("/proc/self/cgroup") or "", flags=re.MULTILINE)
    if not match:
        return []
    own = Path("/sys/fs/cgroup") / match[1].lstrip("/")
    folders = [own, *(folder for folder in own.parents if folder.is_relative_to("/sys/fs/cgroup"))]
    return [text for folder in folders if (text := read_text(str(folder / name)))]


def _throttled_count(cpu_stat: str) -> int | None:
    match = re.search(r"^nr_throttled (\d+)$", cpu_stat, flags=re.MULTILINE)
    return int(match[1]) if match else None


def _least(values: Iterable[T | None]) -> T | None:
    return min((value for value in values if value is not None), default=None)  # type: ignore[type-var]


def _greatest(values: Iterable[T | None]) -> T | None:
    return max((value for value in values if value is not None), default=None)  # type: ignore[type-var]


def _load_averages() -> Sequence[float | None]:
    try:
        return os.getloadavg()
    except (AttributeError, OSError):
        return (None, None, None)


def _cpu_now() -> int | None:
    # proc(5): field 39. The second field is the program's name, which may hold spaces and brackets.
    fields = (read_text("/proc/self/stat") or "").rpartition(")")[2].split()
    return _integer(fields[36]) if len(fields) > 36 else None


def _integer(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _frequency_mhz(cpu: int | None) -> float | None:
    if cpu is None:
        return None
    # One small file of one processor: reading /proc/cpuinfo asks every processor of the machine for its
    # clock.
    khz = _number(read_text(_cpufreq(cpu, "scaling_cur_freq")))
    if khz:
        return khz / 1000
    return (parse_cpuinfo(read_text("/proc/cpuinfo") or "").frequency_mhz or {}).get(cpu)


def _resource_usage() -> Section:
    names = {
        "voluntary_context_switches": "ru_nvcsw",
        "involuntary_context_switches": "ru_nivcsw",
        "minor_page_faults": "ru_minflt",
        "major_page_faults": "ru_majflt",
        "user_cpu_seconds": "ru_utime",
        "system_cpu_seconds": "ru_stime",
    }
    try:
        resource = importlib.import_module("resource")
        usage = resource.getrusage(resource.RUSAGE_SELF)
    except (ImportError, OSError, ValueError):
        return dict.fromkeys(names)
    return {name: getattr(usage, field, None) for name, field in names.items()}


def _from_psutil(question: Callable[[Any], T]) -> T | None:
    # psutil reads the same files under Linux, so this answers only on systems that have none.
    try:
        return question(importlib.import_module("psutil"))
    except (ImportError, OSError, AttributeError, LookupError, RuntimeError, ValueError):
        return None


# --- The GPU, through NVML -----------------------------------------------------------------------------


class _NoGpuError(Exception):
    """There is no such GPU to ask, for the reason in the message."""


@dataclass(frozen=True)
class _Device:
    """A GPU, or a MIG slice (`handle`) of a GPU (`board`); what it cannot answer it answers with None."""

    nvml: Any
    handle: Any
    board: Any

    def ask(self, name: str, *arguments: Any) -> Any:
        """Ask the GPU itself: clocks, power and temperature belong to it, not to a slice."""
        return _answer(self.nvml, name, self.board, *arguments)

    def ask_slice(self, name: str, *arguments: Any) -> Any:
        """Ask the MIG slice, where there is one: memory and name are its own."""
        return _answer(self.nvml, name, self.handle, *arguments)

    @property
    def is_slice(self) -> bool:
        return self.handle is not self.board


def gpu(identifier: str | int) -> Section:
    """Describe a GPU: what stays the same from job to job.

    Parameters
    ----------
    identifier
        A UUID ('GPU-...', 'MIG-...'), a PCI bus id ('0000:3B:00.0', as ``cupy.cuda.Device().pci_bus_id``
        gives it) or NVML's index. Prefer the first two: ``CUDA_VISIBLE_DEVICES`` and ``CUDA_DEVICE_ORDER``
        renumber the devices for CUDA but not for NVML, so CUDA's device 0 need not be NVML's. A process in
        a MIG slice passes its MIG UUID: the bus id is the whole board's.

    Notes
    -----
    Call it once the process holds a CUDA context: where persistence mode is off, NVML wakes a GPU that nobody
    holds, which takes seconds. A pending change of ECC or MIG is not reported, only the mode in force.
    """
    try:
        device = _open(identifier)
    except _NoGpuError as reason:
        return {"unavailable": str(reason)}
    return {
        "name": _text(device.ask_slice("nvmlDeviceGetName")),
        "uuid": _text(device.ask_slice("nvmlDeviceGetUUID")),
        "pci_bus_id": _pci_bus_id(device.ask("nvmlDeviceGetPciInfo")),
        "driver_version": _text(_answer(device.nvml, "nvmlSystemGetDriverVersion")),
        "cuda_driver_version": cuda_version_text(_answer(device.nvml, "nvmlSystemGetCudaDriverVersion_v2")),
        "memory_total_bytes": getattr(device.ask_slice("nvmlDeviceGetMemoryInfo"), "total", None),
        "compute_capability": _dotted(device.ask("nvmlDeviceGetCudaComputeCapability")),
        "ecc_enabled": _current_mode(device.ask("nvmlDeviceGetEccMode")),
        "mig_enabled": _current_mode(device.ask("nvmlDeviceGetMigMode")),
        "is_mig_slice": device.is_slice,
        "power_limit_watts": _thousandth(device.ask("nvmlDeviceGetEnforcedPowerLimit")),
        "sm_clock_max_mhz": device.ask("nvmlDeviceGetMaxClockInfo", NVML_CLOCK_SM),
        "memory_clock_max_mhz": device.ask("nvmlDeviceGetMaxClockInfo", NVML_CLOCK_MEMORY),
        "persistence_enabled": _current_mode(device.ask("nvmlDeviceGetPersistenceMode")),
    }


def gpu_state(identifier: str | int) -> Section:
    """Describe what a GPU is doing now; take it before and after the timed region.

    The identifier is that of `gpu`.

    ``throttle_reasons`` are those of this instant, when the work may already be over;
    ``power_throttled_seconds`` and ``thermal_throttled_seconds`` count since the driver was loaded, so the
    difference of two states says what the timed region suffered. ``compute_processes`` counts this process
    too.
    """
    try:
        device = _open(identifier)
    except _NoGpuError as reason:
        return {"unavailable": str(reason)}
    utilisation = device.ask("nvmlDeviceGetUtilizationRates")
    processes = device.ask("nvmlDeviceGetComputeRunningProcesses")
    reasons = _clock_event_bits(device)
    return {
        "sm_clock_mhz": device.ask("nvmlDeviceGetClockInfo", NVML_CLOCK_SM),
        "memory_clock_mhz": device.ask("nvmlDeviceGetClockInfo", NVML_CLOCK_MEMORY),
        "performance_state": device.ask("nvmlDeviceGetPerformanceState"),
        "temperature_celsius": _temperature(device),
        "power_watts": _thousandth(device.ask("nvmlDeviceGetPowerUsage")),
        "throttle_reasons": None if reasons is None else throttle_reasons(reasons),
        "power_throttled_seconds": _violation_seconds(
            device.ask("nvmlDeviceGetViolationStatus", NVML_POLICY_POWER)
        ),
        "thermal_throttled_seconds": _violation_seconds(
            device.ask("nvmlDeviceGetViolationStatus", NVML_POLICY_THERMAL)
        ),
        "gpu_utilisation_percent": getattr(utilisation, "gpu", None),
        "memory_utilisation_percent": getattr(utilisation, "memory", None),
        "memory_used_bytes": getattr(device.ask_slice("nvmlDeviceGetMemoryInfo"), "used", None),
        "compute_processes": None if processes is None else len(processes),
    }


def visible_gpus() -> Section:
    """List the GPUs NVML sees: ``devices``, each with ``index``, ``uuid``, ``pci_bus_id`` and ``name``.

    They are the node's (or the container's), whatever ``CUDA_VISIBLE_DEVICES`` hides from CUDA: `settings`
    has that variable. The order is NVML's. A device that does not answer is listed with None in its fields.
    """
    try:
        nvml = _load_nvml()
    except _NoGpuError as reason:
        return {"unavailable": str(reason)}
    count = _answer(nvml, "nvmlDeviceGetCount")
    if not count:
        return {"unavailable": "NVML finds no GPU"}
    return {"devices": [_listed(nvml, index) for index in range(count)]}


def throttle_reasons(bitmask: int) -> list[str]:
    """Name the reasons in NVML's clock event (once "throttle") bit mask; an unknown bit shows its value."""
    bits = [1 << position for position in range(max(bitmask, 0).bit_length()) if bitmask >> position & 1]
    return [CLOCK_EVENT_REASONS.get(bit, f"unknown_{bit:#x}") for bit in bits]


def cuda_version_text(version: int | None) -> str | None:
    """Return CUDA's integer version as text: 12080 is '12.8'."""
    return f"{version // 1000}.{version % 1000 // 10}" if version else None


def pci_bus_id_text(bus_id: str) -> str:
    """Return NVML's bus id, '00000000:3B:00.0', as CUDA and CuPy write it, '0000:3B:00.0'."""
    domain, _, rest = bus_id.partition(":")
    return f"{domain[-4:]}:{rest}".upper()


def _load_nvml() -> Any:
    try:
        nvml = importlib.import_module("pynvml")
    except (ImportError, OSError) as error:
        raise _NoGpuError(f"nvidia-ml-py cannot be imported: {error}") from error
    # Never shut down: NVML counts its users, so a second nvmlInit is cheap only while the first one lasts,
    # and the process ends soon after its last question.
    try:
        nvml.nvmlInit()
    except (nvml.NVMLError, OSError, AttributeError) as error:
        raise _NoGpuError(f"NVML does not start: {error}") from error
    return nvml


def _open(identifier: str | int) -> _Device:
    nvml = _load_nvml()
    if isinstance(identifier, int):
        lookup = "nvmlDeviceGetHandleByIndex"
    elif identifier.startswith(("GPU-", "MIG-")):
        lookup = "nvmlDeviceGetHandleByUUID"
    else:
        lookup = "nvmlDeviceGetHandleByPciBusId"
    try:
        handle = getattr(nvml, lookup)(identifier)
    except (nvml.NVMLError, AttributeError, TypeError, ValueError) as error:
        raise _NoGpuError(f"NVML has no GPU {identifier!r}: {error}") from error
    if not _answer(nvml, "nvmlDeviceIsMigDeviceHandle", handle):
        return _Device(nvml, handle, handle)
    board = _answer(nvml, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)
    return _Device(nvml, handle, handle if board is None else board)


def _answer(nvml: Any, name: str, *arguments: Any) -> Any:
    # AttributeError: an older nvidia-ml-py has no such function. NVMLError covers an older driver (function
    # not found), a GPU without the feature, WSL, MIG and missing permission.
    try:
        return getattr(nvml, name)(*arguments)
    except (nvml.NVMLError, AttributeError, TypeError, ValueError, OSError):
        return None


def _listed(nvml: Any, index: int) -> Section:
    handle = _answer(nvml, "nvmlDeviceGetHandleByIndex", index)
    return {
        "index": index,
        "uuid": _text(_answer(nvml, "nvmlDeviceGetUUID", handle)),
        "pci_bus_id": _pci_bus_id(_answer(nvml, "nvmlDeviceGetPciInfo", handle)),
        "name": _text(_answer(nvml, "nvmlDeviceGetName", handle)),
    }


def _text(value: Any) -> str | None:
    # nvidia-ml-py before 11.5 answers in bytes.
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _pci_bus_id(info: Any) -> str | None:
    bus_id = _text(getattr(info, "busId", None))
    return pci_bus_id_text(bus_id) if bus_id else None


def _dotted(numbers: Sequence[int] | None) -> str | None:
    return ".".join(map(str, numbers)) if numbers else None


def _current_mode(mode: Any) -> bool | None:
    # ECC and MIG answer [now, after the next reset]; persistence answers one number.
    current = mode[0] if isinstance(mode, (list, tuple)) else mode
    return None if current is None else bool(current)


def _thousandth(value: int | None) -> float | None:
    return None if value is None else value / 1000


def _temperature(device: _Device) -> int | None:
    # The first is the successor, the second what drivers before 575 have.
    value: int | None = device.ask("nvmlDeviceGetTemperatureV", NVML_TEMPERATURE_GPU)
    return value if value is not None else device.ask("nvmlDeviceGetTemperature", NVML_TEMPERATURE_GPU)


def _clock_event_bits(device: _Device) -> int | None:
    # "Throttle" became "event" in driver 535.
    value: int | None = device.ask("nvmlDeviceGetCurrentClocksEventReasons")
    return value if value is not None else device.ask("nvmlDeviceGetCurrentClocksThrottleReasons")


def _violation_seconds(status: Any) -> float | None:
    nanoseconds = getattr(status, "violationTime", None)
    return None if nanoseconds is None else nanoseconds / 1e9


# --- The software and its settings ---------------------------------------------------------------------


def software(backend: str) -> Section:
    """Describe the software that computes: what this process has imported, never what it could import.

    Call it after the backend has been imported and used; a library that is not imported is not described
    (importing torch to learn its version would change the process that is measured).

    Parameters
    ----------
    backend
        Name of the backend the job runs, kept beside the versions: CuPy jobs have NumPy in memory as well.

    Returns
    -------
    dict
        ``backend``, ``python``, ``numpy`` (with the BLAS it loaded and the number of threads in force),
        ``cupy`` (with CUDA's versions, and under ``missing`` why one is None), ``thread_pools`` (every BLAS
        and OpenMP pool of the process), ``snakemake_version`` and, if imported, ``torch_version``,
        ``jax_version``, ``jaxlib_version``, ``numba_version``.
    """
    pools = _thread_pools()
    others = {f"{name}_version": _module_version(name) for name in ("torch", "jax", "jaxlib", "numba")}
    return {
        "backend": backend,
        "python": {"version": platform.python_version(), "implementation": platform.python_implementation()},
        "numpy": _numpy(pools),
        "cupy": _cupy(),
        "thread_pools": pools,
        "snakemake_version": distribution_versions(re.compile("snakemake"), sys.path).get("snakemake"),
        **{name: version for name, version in others.items() if version},
    }


def settings() -> Section:
    """Describe the settings that steer the libraries and the clock.

    ``environment`` holds the variables with one of `REPORTED_PREFIXES` or `REPORTED_NAMES` and no others; one
    whose name speaks of a key, token or password is named in ``environment_withheld`` instead. ``aslr_level``
    is the kernel's (2 is full), ``aslr_disabled`` says whether this process runs without (``setarch -R``).
    """
    environment, withheld = reported_environment(os.environ)
    personality = read_text("/proc/self/personality") or ""
    return {
        "environment": environment,
        "environment_withheld": withheld,
        "aslr_level": _integer(read_text("/proc/sys/kernel/randomize_va_space")),
        "aslr_disabled": bool(int(personality, 16) & 0x0040000) if _is_hexadecimal(personality) else None,
        "transparent_huge_pages": bracketed(read_text("/sys/kernel/mm/transparent_hugepage/enabled") or ""),
        "perf_counter": _clock(),
    }


def reported_environment(environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables a record may show, and the names of those it must not."""
    names = sorted(
        name for name in environment if name.startswith(REPORTED_PREFIXES) or name in REPORTED_NAMES
    )
    withheld = [name for name in names if SECRET_WORDS & set(name.upper().split("_"))]
    return {name: environment[name] for name in names if name not in withheld}, withheld


def distribution_versions(name: re.Pattern[str], paths: Iterable[str]) -> dict[str, str]:
    """Return the installed distributions whose normalised name matches, with their versions.

    The folder names of site-packages say both. ``importlib.metadata`` would answer the same after 30 ms of
    imports, and has no cheap way to ask for every name that begins alike.
    """
    found: dict[str, str] = {}
    for path in paths:
        try:
            entries = os.listdir(path or ".")
        except OSError:
            continue
        matches = (re.fullmatch(r"(.+?)-(\d[^-]*)(?:-.*)?\.(?:dist|egg)-info", entry) for entry in entries)
        versions = {re.sub(r"[-_.]+", "-", match[1]).lower(): match[2] for match in matches if match}
        # The first folder on the path wins, as it does for import.
        found = {key: value for key, value in versions.items() if name.fullmatch(key)} | found
    return dict(sorted(found.items()))


def loaded_library(maps: str, stem: str) -> str | None:
    """Return the path of a shared library that ``/proc/self/maps`` shows: 'libcublas', not 'libcublasLt'."""
    match = re.search(rf"\s(/\S*/{re.escape(stem)}\.so\S*)", maps)
    return match[1] if match else None


def _thread_pools() -> list[Section] | None:
    try:
        pools = importlib.import_module("threadpoolctl").threadpool_info()
    except (ImportError, OSError, AttributeError, LookupError, RuntimeError, ValueError):
        return None
    wanted = ("user_api", "internal_api", "version", "architecture", "threading_layer", "num_threads")
    # The folder of a library names somebody's home, its file name suffices to tell two OpenBLAS apart.
    return [
        {**{key: pool.get(key) for key in wanted}, "library": _library_name(pool["filepath"])}
        for pool in pools
    ]


def _library_name(path: str) -> str:
    # NumPy's and SciPy's wheels each bring an OpenBLAS, in "numpy.libs" and "scipy.libs".
    folder, _, name = path.replace("\\", "/").rpartition("/")
    owner = folder.rpartition("/")[2]
    return f"{owner}/{name}" if owner.endswith(".libs") else name


def _numpy(pools: Sequence[Mapping[str, Any]] | None) -> Section:
    version = _module_version("numpy")
    if version is None:
        return {"unavailable": "numpy is not imported in this process"}
    blas = [pool for pool in pools or [] if pool["user_api"] == "blas"]
    own = [pool for pool in blas if pool["library"].startswith("numpy.libs/")] or blas
    names = ("internal_api", "version", "architecture", "num_threads")
    return {"version": version, "blas": {name: own[0][name] for name in names} if own else None}


def _cupy() -> Section:
    # Two at once is a known fault: CuPy warns and which one runs depends on the order of installation.
    distributions = distribution_versions(CUPY_DISTRIBUTION, sys.path)
    cupy = sys.modules.get("cupy")
    if cupy is None:
        return {"unavailable": "cupy is not imported in this process", "distributions": distributions}
    questions: dict[str, Callable[[], str | None]] = {
        "cuda_runtime_version": lambda: cuda_version_text(cupy.cuda.runtime.runtimeGetVersion()),
        "cuda_driver_version": lambda: cuda_version_text(cupy.cuda.runtime.driverGetVersion()),
        "nvrtc_version": lambda: _dotted(cupy.cuda.nvrtc.getVersion()),
        "cublas_version": _cublas_version,
    }
    answers: Section = {"version": _module_version("cupy"), "distributions": distributions}
    missing: dict[str, str] = {}
    for name, question in questions.items():
        try:
            answers[name] = question()
        except (RuntimeError, ImportError, AttributeError, OSError, TypeError, ValueError) as error:
            answers[name], missing[name] = None, f"{type(error).__name__}: {error}"
    return {**answers, "missing": missing}


def _cublas_version() -> str:
    # cupy.cuda.cublas.getVersion needs a handle, and making the first one loads the library and takes GPU
    # memory: a job that never multiplied would be changed by the question. The library tells its version
    # without one.
    path = loaded_library(read_text("/proc/self/maps") or "", "libcublas")
    if path is None:
        raise OSError("cuBLAS is not loaded in this process")
    library = ctypes.CDLL(path)
    numbers = []
    for part in range(3):  # library_types.h: MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL
        value = ctypes.c_int()
        if library.cublasGetProperty(part, ctypes.byref(value)) != 0:
            raise OSError("cublasGetProperty failed")
        numbers.append(value.value)
    return ".".join(map(str, numbers))


def _module_version(name: str) -> str | None:
    version = getattr(sys.modules.get(name), "__version__", None)
    return None if version is None else str(version)


def _is_hexadecimal(text: str) -> bool:
    return re.fullmatch(r"[0-9a-fA-F]+", text) is not None


def _clock() -> Section:
    info = time.get_clock_info("perf_counter")
    # The stated resolution is that of the unit; the smallest step between two readings is what a sample can
    # resolve.
    readings = [time.perf_counter_ns() for _ in range(2000)]
    steps = sorted(after - before for before, after in itertools.pairwise(readings) if after > before)
    return {
        "implementation": info.implementation,
        "resolution_seconds": info.resolution,
        "monotonic": info.monotonic,
        "adjustable": info.adjustable,
        "smallest_step_seconds": steps[0] / 1e9 if steps else None,
        "median_step_seconds": steps[len(steps) // 2] / 1e9 if steps else None,
    }


# --- The study, and what makes two machines alike ------------------------------------------------------


def study(root: Path, timeout_seconds: float = 5.0) -> Section:
    """Return the git ``revision`` of the study and whether tracked files are ``dirty``.

    Committed results do not measure: where the folder was copied, git would read thousands of them again for
    every job, which took longer than most measurements.

    Both are None, with the reason under ``unavailable``, where `root` is not the top of a repository (the
    study may have been unpacked from an archive), git is missing, refuses (an owner it does not trust) or is
    too slow.
    """
    command = ["git", "-C", str(root), "-c", "core.fsmonitor=false", "status", "--porcelain=v2", "--branch"]
    try:
        done = subprocess.run(
            [*command, "--untracked-files=no", "--", ".", ":(exclude)results"],
            env=_git_environment(root),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_seconds,
            check=False,
        )
    except (OSError, ValueError) as error:
        return _no_study(f"git cannot be run: {error}")
    except subprocess.TimeoutExpired:
        return _no_study(f"git did not answer within {timeout_seconds:g} seconds")
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").splitlines()
        return _no_study(lines[0] if lines else f"git status ended with {done.returncode}")
    return parse_git_status(done.stdout.decode(errors="replace"))


def utc_now() -> str:
    """Return the time now in UTC as ISO 8601 with microseconds: '2026-01-31T12:00:00.000000Z'."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def fingerprint(host_section: Mapping[str, Any], gpu_section: Mapping[str, Any] | None) -> Section:
    """Return what makes two nodes the same kind of machine.

    Parameters
    ----------
    host_section
        The answer of `host`.
    gpu_section
        The answer of `gpu`, or None for a job without a GPU. A section that is unavailable counts as none.

    Notes
    -----
    Host name, UUID, driver and kernel differ between nodes of a kind and are left out. So is the host's
    memory: ``MemTotal`` lacks what the kernel reserved at boot and what a balloon took back, and any rounding
    has an edge that such a change can cross; nor does its size change a time here. The GPU's memory is kept,
    because it tells two models of a name or two MIG slices apart. It is rounded up to an even number of GiB:
    what is reported is the nominal size, which is even, less a reserve in which drivers differ.
    """
    gpu_section = gpu_section or {}
    gpu_bytes = gpu_section.get("memory_total_bytes")
    return {
        "cpu_model": host_section.get("cpu_model"),
        "physical_cores": host_section.get("physical_cores"),
        "logical_cores": host_section.get("logical_cores"),
        "gpu_name": gpu_section.get("name"),
        "gpu_memory_gib": None if gpu_bytes is None else -(-gpu_bytes // (2 * GIB)) * 2,
        "compute_capability": gpu_section.get("compute_capability"),
    }


def fingerprint_digest(fields: Mapping[str, Any]) -> str:
    """Return 12 hexadecimal digits that depend on the fingerprint's fields and not on their order."""
    text = json.dumps(dict(fields), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def fingerprint_difference(recorded: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Say where two fingerprints differ, a line a field: 'gpu_name: NVIDIA H200, here NVIDIA A100'."""
    return [
        f"{name}: {_shown(recorded.get(name))}, here {_shown(here.get(name))}"
        for name in dict.fromkeys([*recorded, *here])
        if recorded.get(name) != here.get(name)
    ]


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)


def _git_environment(root: Path) -> dict[str, str]:
    # A hook's GIT_DIR would make git speak of another repository, and without the ceiling a study unpacked
    # inside somebody's repository would get that one's revision.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    ceiling = os.path.dirname(os.path.realpath(root))
    return {**inherited, "GIT_OPTIONAL_LOCKS": "0", "GIT_CEILING_DIRECTORIES": ceiling, "LC_ALL": "C"}


def _no_study(reason: str) -> Section:
    return {"revision": None, "dirty": None, "unavailable": reason}
