"""Records: what one job wrote, read strictly. A truncated, foreign or impossible file is refused by name."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from onehot.errors import RecordError
from onehot.variant import Variant

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Status = Literal["ok", "skipped", "failed"]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class VariantModel(_Model):
    """The identity of what was measured; see ``variant.Variant``."""

    geometry: Literal["published", "corrected"]
    backend: str
    implementation: str
    minibatch: Count
    vocabulary: Count
    embedding: Count
    dtype: Literal["float32", "float64"]
    index_dtype: Literal["int32", "int64"]
    distribution: Literal["uniform", "zipf"]
    zipf_exponent: Annotated[float, Field(ge=0)]
    layout: Literal["C", "F"]
    threads: Annotated[int, Field(ge=0)]

    def identity(self) -> Variant:
        """Return the variant itself."""
        return Variant(**self.model_dump())


class SeriesModel(_Model):
    """All samples of one clock; see ``sampling.Series``."""

    seconds: Annotated[list[Positive], Field(min_length=1)]
    calls_per_sample: Count
    stopped: Literal["target", "budget", "maximum", "single"]
    half_width: Annotated[float, Field(ge=0)] | None


class SkipModel(_Model):
    """Why a variant was given up: what was predicted, and the limit."""

    cause: Literal["memory", "time"]
    predicted: Positive
    limit: Annotated[float, Field(ge=0)]
    unit: Literal["bytes", "seconds"]
    probes: list[tuple[Count, Positive]]


class StartUpModel(_Model):
    """Seconds of each stage before the first sample, in this process, with the caches as they were."""

    import_seconds: Positive
    context_seconds: Annotated[float, Field(ge=0)]
    inputs_seconds: Positive
    prepare_seconds: Annotated[float, Field(ge=0)] | None
    first_call_seconds: Positive


class StudyModel(_Model):
    """Which code measured."""

    code_hash: str = ""


class RunModel(_Model):
    """When the process measured, in UTC, ISO 8601."""

    start_utc: str
    end_utc: str


class ProvenanceModel(_Model):
    """Machine, software and settings, in the words of ``machine``."""

    host: dict[str, Any]
    gpu: dict[str, Any] | None
    fingerprint: dict[str, Any]
    fingerprint_digest: str
    software: dict[str, Any]
    settings: dict[str, Any]
    git: dict[str, Any]
    before: dict[str, Any]
    after: dict[str, Any] | None = None


class _Record(_Model):
    schema_: Literal[1] = Field(alias="schema")
    status: Status
    reason: str
    study: StudyModel = StudyModel()
    provenance: ProvenanceModel | None = None
    run: RunModel | None = None


class MeasurementRecord(_Record):
    """One invocation of one variant."""

    kind: Literal["measurement"]
    variant: VariantModel
    invocation: Annotated[int, Field(ge=0)]
    settings: dict[str, Any] = {}
    skip: SkipModel | None = None
    start_up: StartUpModel | None = None
    clocks: dict[Literal["latency", "throughput", "enqueue", "device_cold", "device_hot"], SeriesModel] = {}
    absent: dict[str, str] = {}
    index_sets: Count | None = None
    minibatches_per_call: Count = 1
    distinct_rows: list[Count] = []
    build_seconds: list[Positive] = []


class HeadlineRecord(_Record):
    """One full run of the question's minibatches."""

    kind: Literal["headline"]
    variant: VariantModel
    minibatches: Count
    seconds: Positive | None = None
    seconds_at_tenths: list[Annotated[float, Field(ge=0)]] = []


class ColdStartRecord(_Record):
    """The stages of two fresh processes, with an empty and with a warm kernel cache."""

    kind: Literal["cold_start"]
    variant: VariantModel
    invocation: Annotated[int, Field(ge=0)]
    caches: dict[Literal["empty", "warm"], dict[str, Annotated[float, Field(ge=0)]]] = {}


class BackendRecord(_Record):
    """Whether a backend runs on the machine."""

    kind: Literal["backend"]
    backend: str
    free_bytes: int | None = None
    cores: Count | None = None
    python: str | None = None


class LimitModel(_Model):
    """Samples of one limit; see ``limits.Limit``."""

    name: str
    unit: Literal["seconds", "bytes_per_second", "flop_per_second"]
    kind: str
    seconds: list[float]
    amount: Annotated[float, Field(ge=0)]
    note: str
    clock: str
    calls_per_sample: Count = 1


class LimitsRecord(_Record):
    """One invocation of the limits of one backend."""

    kind: Literal["limits"]
    backend: str
    invocation: Annotated[int, Field(ge=0)]
    settings: dict[str, Any] = {}
    limits: list[LimitModel] = []


class CopyModel(_Model):
    """Copies of one direction and size."""

    direction: str
    bytes: Annotated[int, Field(ge=0)]
    count: Count


class MemsetModel(_Model):
    """Memsets of one size."""

    bytes: Annotated[int, Field(ge=0)]
    count: Count


class CountsModel(_Model):
    """What CUPTI saw of one call; see ``ledger.Counts``."""

    kernels: dict[str, Count]
    kernel_seconds: dict[str, Annotated[float, Field(ge=0)]]
    copies: list[CopyModel]
    memsets: list[MemsetModel]
    synchronizations: dict[str, Count]
    driver_calls: dict[str, Count]
    runtime_calls: dict[str, Count]


class AllocationsModel(_Model):
    """What a memory pool was asked for; see ``ledger.Allocations``."""

    requests: Annotated[int, Field(ge=0)]
    request_bytes: Annotated[int, Field(ge=0)]
    real: Annotated[int, Field(ge=0)]
    real_bytes: Annotated[int, Field(ge=0)]
    peak_bytes: Annotated[int, Field(ge=0)]


class HostMemoryModel(_Model):
    """What one call took of the host's memory; see ``ledger.host_memory``."""

    peak_bytes: int
    array_blocks: Annotated[int, Field(ge=0)]
    array_bytes: Annotated[int, Field(ge=0)]
    page_faults: Annotated[int, Field(ge=0)]


class LedgerRecord(_Record):
    """What one call of one variant asked of the machine; see ``ledger``."""

    kind: Literal["ledger"]
    variant: VariantModel
    minibatches_per_call: Count = 1
    counted_by: list[Literal["cupti", "memory_hook", "tracemalloc"]] = []
    absent: dict[Literal["cupti", "memory_hook"], str] = {}
    counts: CountsModel | None = None
    device_memory: dict[Literal["warm", "empty_pool"], AllocationsModel] = {}
    host_memory: HostMemoryModel | None = None


class WitnessRecord(_Record):
    """What somebody else's benchmark says of one variant; see ``witness``. Seconds a minibatch."""

    kind: Literal["witness"]
    variant: VariantModel
    tool: str = ""
    version: str = ""
    seconds: dict[Literal["cold", "batch", "host"], list[Annotated[float, Field(gt=0)]]] = {}


class PlannedVariant(_Model):
    """One line of the plan."""

    variant: VariantModel
    status: Literal["planned", "skipped"]
    reason: str


class Plan(_Model):
    """What was asked of the machine."""

    schema_: Literal[1] = Field(alias="schema")
    kind: Literal["plan"]
    machine: str
    variants: list[PlannedVariant]


class StatisticsModel(BaseModel):
    """How samples become statements; see ``config.Statistics``."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    level: float
    resamples: Count


class ConfigurationModel(BaseModel):
    """Of a run's whole configuration, what its tables read; the rest is kept as it is."""

    model_config = ConfigDict(extra="allow", frozen=True)

    seed: int
    statistics: StatisticsModel


class ConfigurationRecord(_Model):
    """The configuration that a run was started with."""

    schema_: Literal[1] = Field(alias="schema")
    kind: Literal["configuration"]
    machine: str
    configuration: ConfigurationModel
    hash: str
    git: dict[str, Any]


Record = (
    MeasurementRecord
    | HeadlineRecord
    | ColdStartRecord
    | BackendRecord
    | LimitsRecord
    | LedgerRecord
    | WitnessRecord
    | Plan
    | ConfigurationRecord
)
_ADAPTER: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="kind")])


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} stands twice")
    return dict(pairs)


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not a number that a measurement can give")


def read(path: Path) -> Record:
    """Read one record.

    Raises
    ------
    RecordError
        Names the file, what was found, and what to do.
    """
    try:
        raw = json.loads(path.read_text(), object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
        return _ADAPTER.validate_python(raw)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()[:3]
        )
        raise _refusal(path, faults) from None
    except (ValueError, OSError) as error:
        raise _refusal(path, str(error)) from None


def _refusal(path: Path, found: str) -> RecordError:
    return RecordError(
        f"{path} is no record of this study: {found}. "
        "Delete it (a run measures it again), or put the right file there"
    )


def read_all(paths: Iterable[Path]) -> Iterator[tuple[Path, Record]]:
    """Yield every record with its path, in the paths' order."""
    for path in paths:
        yield path, read(path)
