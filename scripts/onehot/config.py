"""The configuration as pydantic models: the one place where a key, its bounds and its default are written."""

import random
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from onehot import implementations
from onehot.backends import registry as backends
from onehot.errors import ConfigurationError, nearest
from onehot.implementations.registry import INDICES, ONE_HOT, Implementation
from onehot.variant import CORRECTED, PUBLISHED, Variant


def _refuse_text(value: Any) -> Any:
    if isinstance(value, str):
        inside = value.strip("[]")
        raise ValueError(
            f"a list is needed, not the text {value!r}; on the command line write KEY='[{inside}]'"
        )
    return value


def _refuse_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"a number is needed, not {value} (YAML reads on, off, yes and no as truth values)")
    return value


def _unique(values: list[Any]) -> list[Any]:
    repeated = sorted({str(value) for value in values if values.count(value) > 1})
    if repeated:
        raise ValueError(f"{', '.join(repeated)} stands twice")
    return values


def _known_backend(name: str) -> str:
    if name not in backends.names():
        raise ValueError(
            f"{name!r} is no backend{nearest(name, backends.names())}; known: {', '.join(backends.names())}"
        )
    return name


def _known_implementation(name: str) -> str:
    known = implementations.names()
    if name not in known:
        raise ValueError(f"{name!r} is no implementation{nearest(name, known)}; known: {', '.join(known)}")
    return name


def _machine_label(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ValueError(f"{name!r} cannot name a folder; letters, digits, '.', '_' and '-' are allowed")
    if name == "reference":
        raise ValueError("'reference' is where committed results lie; choose another label")
    return name


NotText = BeforeValidator(_refuse_text)
NotBool = BeforeValidator(_refuse_bool)
Unique = AfterValidator(_unique)
NotEmpty = Field(min_length=1)

Whole = Annotated[int, NotBool]
Real = Annotated[float, NotBool, Field(gt=0)]
Size = Annotated[int, NotBool, Field(ge=1, le=1 << 27)]
BackendName = Annotated[str, AfterValidator(_known_backend)]
ImplementationName = Annotated[str, AfterValidator(_known_implementation)]

Geometries = Annotated[list[Literal["published", "corrected"]], NotText, Unique, NotEmpty]
Backends = Annotated[list[BackendName], NotText, Unique, NotEmpty]
Implementations = Annotated[list[ImplementationName], NotText, Unique, NotEmpty]
Minibatches = Annotated[list[Size], NotText, Unique, NotEmpty]
Vocabularies = Annotated[list[Annotated[Size, Field(ge=2)]], NotText, Unique, NotEmpty]
Embeddings = Annotated[list[Annotated[Size, Field(le=1 << 16)]], NotText, Unique, NotEmpty]
Dtypes = Annotated[list[Literal["float32", "float64"]], NotText, Unique, NotEmpty]
IndexDtypes = Annotated[list[Literal["int32", "int64"]], NotText, Unique, NotEmpty]
Distributions = Annotated[list[Literal["uniform", "zipf"]], NotText, Unique, NotEmpty]
Exponent = Annotated[Real, Field(le=10)]
Layouts = Annotated[list[Literal["C", "F"]], NotText, Unique, NotEmpty]
Threads = Annotated[list[Annotated[Whole, Field(ge=0, le=4096)]], NotText, Unique, NotEmpty]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Factors(_Model):
    """What is swept. Every combination that means something is one variant."""

    geometry: Geometries = Field(
        default=["published", "corrected"], description="published, corrected or both"
    )
    backend: Backends = Field(default=["numpy", "cupy"], description="array libraries to measure")
    implementation: Implementations = Field(description="implementations to measure")
    minibatch: Minibatches = Field(description="m, rows of one minibatch")
    vocabulary: Vocabularies = Field(default=[50_000], description="V, rows of W0")
    embedding: Embeddings = Field(default=[300], description="E, columns of W0")
    dtype: Dtypes = Field(default=["float32"], description="of W0 and of the result")
    index_dtype: IndexDtypes = Field(default=["int64"], description="of the index vector J")
    distribution: Distributions = Field(default=["uniform"], description="the law J is drawn from")
    zipf_exponent: Exponent = Field(default=1.0, description="exponent of the Zipf law truncated to V")
    layout: Layouts = Field(default=["C"], description="memory order of the one-hot matrix")
    threads: Threads = Field(
        default=[1, 0],
        description="threads of products and parallel loops; 0 is every core; others run with 1",
    )


class Override(_Model):
    """A further sweep: what it does not name is taken from the main one."""

    geometry: Geometries | None = None
    backend: Backends | None = None
    implementation: Implementations | None = None
    minibatch: Minibatches | None = None
    vocabulary: Vocabularies | None = None
    embedding: Embeddings | None = None
    dtype: Dtypes | None = None
    index_dtype: IndexDtypes | None = None
    distribution: Distributions | None = None
    zipf_exponent: Exponent | None = None
    layout: Layouts | None = None
    threads: Threads | None = None
    invocations: Annotated[int, NotBool, Field(ge=1, le=1000)] | None = None


class Sampling(_Model):
    """How long a variant is sampled, and when it is given up."""

    budget_seconds: Real = Field(
        default=0.1, description="sampling time of one job, all clocks together", le=3600
    )
    target: Real = Field(
        default=0.02,
        description="stop a clock when the relative half-width of its median's 95 % interval is below",
        le=1,
    )
    min_samples: Whole = Field(
        default=10, description="samples of a clock before the target is asked", ge=1, le=10_000
    )
    max_samples: Whole = Field(default=100, description="samples of a clock at most", ge=1, le=100_000)
    sample_seconds: Real = Field(
        default=0.002, description="aim for the length of a throughput sample", le=60
    )
    warmup_seconds: Real = Field(
        default=0.03, description="calls before sampling, the first one aside", le=60
    )
    call_limit_seconds: Real = Field(
        default=1.0,
        description="a variant whose single call is predicted to take longer is skipped",
        le=86_400,
    )
    timeout_seconds: Real = Field(default=120.0, description="a measuring process is ended after", le=86_400)

    @model_validator(mode="after")
    def _ordered(self) -> "Sampling":
        if self.max_samples < self.min_samples:
            raise ValueError(f"max_samples {self.max_samples} is under min_samples {self.min_samples}")
        return self


class Headline(_Model):
    """The question's whole run, for real: every minibatch of all epochs."""

    implementation: Implementations = Field(default=["published_loop", "published_gather", "fancy_index"])
    minibatch: Whole = Field(default=2048, description="m of the full run", ge=1, le=1 << 27)
    minibatches: Whole = Field(
        default=1570, description="minibatches of the full run, all epochs", ge=1, le=10_000_000
    )
    timeout_seconds: Real = Field(default=900.0, description="a full run is ended after", le=86_400)


class Limits(_Model):
    """Unit costs and bandwidths of the machine, measured before the sweep."""

    invocations: Whole = Field(
        default=3, description="processes in which the limits are measured", ge=1, le=1000
    )


class ColdStart(_Model):
    """First call in a fresh process, with an empty and with a warm kernel cache."""

    implementation: Implementations = Field(default=["published_loop", "fancy_index"])
    minibatch: Whole = Field(default=2048, description="m of the first call", ge=1, le=1 << 27)


class Trace(_Model):
    """What one call asks of the machine, counted in a process of its own."""

    minibatch: Whole = Field(default=2048, description="m of the call that is counted", ge=1, le=1 << 27)


class Witness(_Model):
    """Lookups that another benchmark times too, where it is installed: NVBench on CuPy, pyperf on NumPy."""

    implementation: Implementations = Field(default=["fancy_index", "take", "raw_kernel_out"])
    minibatch: Minibatches = Field(default=[2048, 16_384, 131_072], description="m of the calls")


class Statistics(_Model):
    """How samples become statements."""

    level: Real = Field(default=0.95, description="coverage of every interval", le=0.9999, gt=0.5)
    resamples: Whole = Field(
        default=2000, description="resamples of the hierarchical bootstrap", ge=100, le=1_000_000
    )
    implausible: Real = Field(
        default=0.95,
        description="a device time under this fraction of the bound is flagged as implausible",
        le=1,
    )


class Study(Factors):
    """The whole configuration."""

    machine: Annotated[str, AfterValidator(_machine_label)] | None = Field(
        default=None, description="label of the results folder; the host's name where none is given"
    )
    seed: Whole = Field(
        default=20261201, description="of indices, weights, order and bootstrap", ge=0, le=2**63 - 1
    )
    invocations: Whole = Field(
        default=3, description="processes in which each variant is measured", ge=1, le=1000
    )
    index_sets: Whole = Field(
        default=4, description="minibatches of different indices, rotated", ge=1, le=1024
    )
    input_bytes: Whole = Field(
        default=1 << 28,
        description="fewer index sets are rotated where all of them would take more than this",
        ge=1,
        le=1 << 40,
    )
    sampling: Sampling = Sampling()
    headline: Headline | None = Headline()
    limits: Limits | None = Limits()
    cold_start: ColdStart | None = ColdStart()
    trace: Trace | None = Trace()
    witness: Witness | None = Field(
        default=None, description="outside witness of the clocks: NVBench on CuPy, pyperf on NumPy"
    )
    statistics: Statistics = Statistics()
    sweeps: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], Override] = Field(
        default={}, description="further sweeps by name, added to the main one"
    )


def load(raw: Mapping[str, Any]) -> Study:
    """Validate a configuration as Snakemake hands it over.

    Raises
    ------
    ConfigurationError
        A line per fault: the key, what was found, what is allowed, the nearest valid name.
    """
    try:
        study = Study.model_validate(dict(raw))
    except ValidationError as error:
        lines = [_fault(dict(fault)) for fault in error.errors()]
        raise ConfigurationError(
            "the configuration is not valid:\n" + "\n".join(f"  {line}" for line in lines)
        ) from None
    if not variants(study):
        raise ConfigurationError(
            "the configuration is not valid:\n  no variant is left: none of the implementations "
            f"{study.implementation} runs in geometry {study.geometry} on backend {study.backend}"
        )
    return study


def _fault(fault: dict[str, Any]) -> str:
    where = ".".join(str(part) for part in fault["loc"]) or "configuration"
    if fault["type"] == "extra_forbidden":
        key = str(fault["loc"][-1])
        allowed = _keys_at(fault["loc"][:-1])
        return f"{where}: unknown key{nearest(key, allowed)}; allowed here: {', '.join(allowed)}"
    found = "" if fault["type"] == "missing" else f" (found {fault['input']!r})"
    return f"{where}: {fault['msg'].removeprefix('Value error, ')}{found}"


def _keys_at(location: tuple[Any, ...]) -> list[str]:
    """Keys allowed at a place in the configuration, so that a misspelt one can be told what it should be."""
    models: dict[str, type[BaseModel]] = {
        "sampling": Sampling,
        "headline": Headline,
        "limits": Limits,
        "cold_start": ColdStart,
        "trace": Trace,
        "witness": Witness,
        "statistics": Statistics,
        "sweeps": Override,
    }
    return list((models[location[0]] if location else Study).model_fields)


def factors(study: Study) -> dict[str, Any]:
    """Return the part of the configuration that decides which variants there are.

    It is a configuration itself.
    """
    return study.model_dump(
        mode="json", include={*Factors.model_fields, "invocations", "sweeps"}, exclude_none=True
    )


def variants(study: Study) -> list[Variant]:
    """Return every variant of the main sweep and of the further ones, each once, in a fixed order."""
    return list(invocations(study))


def invocations(study: Study) -> dict[Variant, int]:
    """Return, for each variant, in how many processes it is measured.

    As the first sweep that names it says.
    """
    found: dict[Variant, int] = {}
    for factors, count in _sweeps(study):
        found |= {variant: count for variant in _combinations(factors) if variant not in found}
    return found


def _sweeps(study: Study) -> Iterable[tuple[dict[str, Any], int]]:
    """Yield the factors of the main sweep and of the further ones, each with its number of processes."""
    main = {name: getattr(study, name) for name in Factors.model_fields}
    yield main, study.invocations
    for override in study.sweeps.values():
        changed = override.model_dump(exclude_none=True)
        count = changed.pop("invocations", study.invocations)
        yield {**main, **changed}, count


def _combinations(factors: Mapping[str, Any]) -> Iterable[Variant]:
    for name in factors["implementation"]:
        for backend in factors["backend"]:
            entry = implementations.find(name, backend)
            if entry is not None and entry.geometry in factors["geometry"]:
                yield from _sweep(entry, backend, factors)


def _sweep(entry: Implementation, backend: str, factors: Mapping[str, Any]) -> Iterable[Variant]:
    """Vary only the factors that the implementation can feel: the rest stand at one value."""
    one_hot = entry.reads == ONE_HOT
    laws = factors["distribution"] if entry.geometry == CORRECTED else ["uniform"]
    index_dtypes = factors["index_dtype"] if entry.reads == INDICES else ["int64"]
    for m in factors["minibatch"]:
        for v in factors["vocabulary"]:
            for e in factors["embedding"]:
                for dtype in factors["dtype"]:
                    for index_dtype in index_dtypes:
                        for law in laws:
                            for layout in factors["layout"] if one_hot else ["C"]:
                                for threads in (
                                    factors["threads"]
                                    if entry.threaded and not backends.on_device(backend)
                                    else [1]
                                ):
                                    exponent = factors["zipf_exponent"] if law == "zipf" else 0.0
                                    yield Variant(
                                        entry.geometry,
                                        backend,
                                        entry.name,
                                        m,
                                        v,
                                        e,
                                        dtype,
                                        index_dtype,
                                        law,
                                        exponent,
                                        layout,
                                        threads,
                                    )


def single_variant(study: Study, implementation: str, backend: str, minibatch: int) -> Variant:
    """Return one implementation's variant at a minibatch of its own.

    The other factors at their first value.
    """
    factors = {name: getattr(study, name)[:1] for name in Factors.model_fields if name != "zipf_exponent"}
    factors |= {
        "zipf_exponent": study.zipf_exponent,
        "minibatch": [minibatch],
        "geometry": ["published", "corrected"],
    }
    entry = implementations.get(implementation, backend)
    return next(iter(_sweep(entry, backend, factors)))


def execution_order(study: Study) -> dict[tuple[Variant, int], int]:
    """Rank of every (variant, invocation).

    The main sweep comes before the further ones. Within each, invocation 0 of everything comes first,
    shuffled by the seed, then invocation 1, and so on: what drifts with time meets every variant alike.
    """
    order: dict[tuple[Variant, int], int] = {}
    main = set(_combinations({name: getattr(study, name) for name in Factors.model_fields}))
    counts = invocations(study)
    for part in (sorted(main), sorted(set(counts) - main)):
        for invocation in range(max((counts[variant] for variant in part), default=0)):
            shuffled = [variant for variant in part if invocation < counts[variant]]
            random.Random(f"{study.seed}/{invocation}").shuffle(shuffled)
            order |= {(variant, invocation): len(order) + rank for rank, variant in enumerate(shuffled)}
    return order


__all__ = ["CORRECTED", "PUBLISHED", "Study", "execution_order", "factors", "invocations", "load", "variants"]
