"""Time the calls of one case under pyperf, whose manager starts this program again as its workers."""

import itertools
import json
from typing import Any

import pyperf
from onehot.backends import registry as backends
from onehot.preparation import prepare
from onehot.problem import Problem
from onehot.variant import Variant


def _hand_on(command: list[str], arguments: Any) -> None:
    command.extend(("--case", arguments.case))


def main() -> None:
    """Run the case that the command line gives as JSON: variant, seed, and number of index sets."""
    runner = pyperf.Runner(add_cmdline_args=_hand_on)
    runner.argparser.add_argument("--case", required=True)
    case = json.loads(runner.parse_args().case)
    variant = Variant(**case["variant"])
    backend = backends.load(variant.backend)
    backend.set_threads(variant.threads)
    calls = itertools.cycle(prepare(backend, Problem(variant, case["seed"]), case["index_sets"]).calls)
    runner.bench_func(variant.implementation, lambda: next(calls)())


if __name__ == "__main__":
    main()
