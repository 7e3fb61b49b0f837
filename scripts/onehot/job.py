"""What one job is told and what every record of it holds; importing this imports no array library."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onehot.variant import Variant


@dataclass(frozen=True)
class Settings:
    """What a measurement reads of the configuration, beside its variant.

    See ``config.Sampling`` for the units.
    """

    seed: int
    index_sets: int
    input_bytes: int
    budget_seconds: float
    target: float
    min_samples: int
    max_samples: int
    sample_seconds: float
    warmup_seconds: float
    call_limit_seconds: float
    timeout_seconds: float


def blank_record(variant: Variant, invocation: int, study: Mapping[str, Any]) -> dict[str, Any]:
    """Return what every measurement record holds whatever became of it."""
    return {
        "schema": 1,
        "kind": "measurement",
        "status": "failed",
        "reason": "",
        "variant": dataclasses.asdict(variant),
        "invocation": invocation,
        "study": {key: value for key, value in study.items() if key != "root"},
    }
