"""The configuration as pydantic models: the one place where a key, its bounds and its default are written."""

import random
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from onehot import implementations
from onehot.backends import registry as backends
from onehot.errors import ConfigurationError, nearest
from onehot.implementations.registry import INDICES, ONE_HOT, Implementation
from onehot.variant import CORRECTED, PUBLISHED, Variant


def _refuse_text(value: Any) -> Any:
    if isinstance(value, str):
        inside = value.strip("[]")
        raise ValueError(f"a list is needed, not the text {value!r}; on the command line write KEY='[{inside}]'")
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
        raise ValueError(f"{name!r} is no backend{nearest(name, backends.names())}; known: {', '.join(backends.names())}")
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


def _list_of(item: Any) -> Any:
    return Annotated[
        list[item], BeforeValidator(_refuse_text), AfterValidator(_unique), Field(min_length=1)
    ]


def _integer(low: int, high: int) -> Any:
    return Annotated[int, BeforeValidator(_refuse_bool), Field(ge=low, le=high)]


def _number(low: float, high: float) -> Any:
    return Annotated[float, BeforeValidator(_refuse_bool), Field(gt=low, le=high)]


Geometries = _list_of(Literal["published", "corrected"])
Backends = _list_of(Annotated[str, AfterValidator(_known_backend)])
Implementations = _list_of(Annotated[str, AfterValidator(_known_implementation)])
Minibatches = _list_of(_integer(1, 1 << 27))
Vocabularies = _list_of(_integer(2, 1 << 27))
Embeddings = _list_of(_integer(1, 1 << 16))
Dtypes = _list_of(Literal["float32", "float64"])
IndexDtypes = _list_of(Literal["int32", "int64"])
Distributions = _list_of(Literal["uniform", "zipf"])
Exponent = _number(0.0, 10.0)
Layouts = _list_of(Literal["C", "F"])
Threads = _list_of(_integer(0, 4096))


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Factors(_Model):
    """What is swept. Every combination that means something is one variant."""

    geometry: Geometries = Field(default=["published", "corrected"], description="published, corrected or both")
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
        default=[1, 0], description="threads of products and parallel loops; 0 is every core; others run with 1"
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


class Sampling(_Model):
    """How long a variant is sampled, and when it is given up."""

    budget_seconds: _number(0, 3600) = Field(default=0.4, description="sampling time of one job, all clocks together")
    target: _number(0, 1) = Field(
        default=0.02, description="stop a clock when the relative half-width of its median's 95 % interval is below"
    )
    min_samples: _integer(1, 10_000) = Field(default=10, description="samples of a clock before the target is asked")
    max_samples: _integer(1, 100_000) = Field(default=100, description="samples of a clock at most")
    sample_seconds: _number(0, 60) = Field(default=0.002, description="aim for the length of a throughput sample")
    warmup_seconds: _number(0, 60) = Field(default=0.03, description="calls before sampling, the first one aside")
    call_limit_seconds: _number(0, 86_400) = Field(
        default=1.0, description="a variant whose single call is predicted to take longer is skipped"
    )
    timeout_seconds: _number(0, 86_400) = Field(default=120.0, description="a measuring process is ended after")

    @model_validator(mode="after")
    def _ordered(self) -> "Sampling":
        if self.max_samples < self.min_samples:
            raise ValueError(f"max_samples {self.max_samples} is under min_samples {self.min_samples}")
        return self


class Headline(_Model):
    """The question's whole run, for real: every minibatch of all epochs."""

    implementation: Implementations = Field(default=["published_loop", "published_gather", "fancy_index"])
    minibatch: _integer(1, 1 << 27) = Field(default=2048, description="m of the full run")
    minibatches: _integer(1, 10_000_000) = Field(default=1570, description="minibatches of the full run, all epochs")
    timeout_seconds: _number(0, 86_400) = Field(default=900.0, description="a full run is ended after")


class ColdStart(_Model):
    """First call in a fresh process, with an empty and with a warm kernel cache."""

    implementation: Implementations = Field(default=["published_loop", "fancy_index"])
    minibatch: _integer(1, 1 << 27) = Field(default=2048, description="m of the first call")


class Statistics(_Model):
    """How samples become statements."""

    level: _number(0.5, 0.9999) = Field(default=0.95, description="coverage of every interval")
    resamples: _integer(100, 1_000_000) = Field(default=2000, description="resamples of the hierarchical bootstrap")
    implausible: _number(0, 1) = Field(
        default=0.95, description="a device time under this fraction of the bound is flagged as implausible"
    )


class Study(Factors):
    """The whole configuration."""

    machine: Annotated[str, AfterValidator(_machine_label)] | None = Field(
        default=None, description="label of the results folder; the host's name where none is given"
    )
    seed: _integer(0, 2**63 - 1) = Field(default=20261201, description="of indices, weights, order and bootstrap")
    invocations: _integer(1, 1000) = Field(default=3, description="processes in which each variant is measured")
    index_sets: _integer(1, 1024) = Field(default=4, description="minibatches of different indices, rotated")
    input_bytes: _integer(1, 1 << 40) = Field(
        default=1 << 30, description="fewer index sets are rotated where all of them would take more than this"
    )
    sampling: Sampling = Sampling()
    headline: Headline | None = Headline()
    cold_start: ColdStart | None = ColdStart()
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
        raise ConfigurationError("the configuration is not valid:\n" + "\n".join(f"  {line}" for line in lines)) from None
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
        "sampling": Sampling, "headline": Headline, "cold_start": ColdStart, "statistics": Statistics, "sweeps": Override,
    }
    return list((models[location[0]] if location else Study).model_fields)


def variants(study: Study) -> list[Variant]:
    """Return every variant of the main sweep and of the further ones, each once, in a fixed order."""
    main = {name: getattr(study, name) for name in Factors.model_fields}
    overrides = [one.model_dump(exclude_none=True) for one in study.sweeps.values()]
    found: dict[Variant, None] = {}
    for factors in [main, *({**main, **override} for override in overrides)]:
        found.update(dict.fromkeys(_combinations(factors)))
    return list(found)


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
                                for threads in factors["threads"] if entry.threaded and not backends.on_device(backend) else [1]:
                                    exponent = factors["zipf_exponent"] if law == "zipf" else 0.0
                                    yield Variant(
                                        entry.geometry, backend, entry.name, m, v, e, dtype, index_dtype,
                                        law, exponent, layout, threads,
                                    )


def single_variant(study: Study, implementation: str, backend: str, minibatch: int) -> Variant:
    """Return one implementation's variant at a minibatch of its own, the other factors at their first value."""
    factors = {name: getattr(study, name)[:1] for name in Factors.model_fields if name != "zipf_exponent"}
    factors |= {"zipf_exponent": study.zipf_exponent, "minibatch": [minibatch], "geometry": ["published", "corrected"]}
    entry = implementations.get(implementation, backend)
    return next(iter(_sweep(entry, backend, factors)))


def execution_order(study: Study, planned: Iterable[Variant]) -> dict[tuple[Variant, int], int]:
    """Rank of every (variant, invocation): invocation 0 of everything first, shuffled within by the seed."""
    order: dict[tuple[Variant, int], int] = {}
    everything = sorted(planned)
    for invocation in range(study.invocations):
        shuffled = list(everything)
        random.Random(f"{study.seed}/{invocation}").shuffle(shuffled)
        order.update({(variant, invocation): len(order) + rank for rank, variant in enumerate(shuffled)})
    return order


__all__ = ["CORRECTED", "PUBLISHED", "Study", "execution_order", "load", "variants"]
