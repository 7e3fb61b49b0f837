import dataclasses
import functools
import json
import math
import os
import platform
import re
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.settings.types import DeploymentMethod
from snakemake.utils import Paramspace

STUDY_ROOT = Path(workflow.basedir).resolve()
if not (STUDY_ROOT / "scripts").is_dir():
    STUDY_ROOT = STUDY_ROOT.parent
sys.path.insert(0, str(STUDY_ROOT / "scripts"))

from onehot import catalogue, code_hash, installation, implementations, recovery
from onehot import config as configuration
from onehot.backends import registry as backends
from onehot.errors import StudyError
from onehot.variant import COLUMNS, FILE_COLUMNS, Variant

# What nodes.smk asks a scheduler for, beside the profile: it says where to measure, not what.
NODE = config.pop("node", {})

try:
    STUDY = configuration.load(config)
except StudyError as error:
    raise WorkflowError(str(error))


# scripts/measure.sh is run by the shell, which knows no interpreter; in a container the image's own is the one.
if DeploymentMethod.APPTAINER not in workflow.deployment_settings.deployment_method:
    os.environ.update(STUDY_PYTHON=sys.executable)

if workflow.is_main_process:
    GUARD = recovery.remove_stale_locks(Path(".snakemake"))


def machine_label():
    """The configured label, or the host's name where none is given."""
    host = re.sub(r"[^A-Za-z0-9._-]", "-", platform.node().split(".")[0]) or "machine"
    return STUDY.machine or (f"this-{host}" if host == "reference" else host)


MACHINE = machine_label()
RESULTS = f"results/{MACHINE}"
RECORDS = f"{RESULTS}/records"
LOGS = f"{RESULTS}/logs"
VARIANTS = configuration.variants(STUDY)
INVOCATIONS = configuration.invocations(STUDY)
ORDER = configuration.execution_order(STUDY)


# A machine that is not what it should be shows before the hours are spent.
BEFORE_THE_SWEEP = len(ORDER) + 1
LIMITED_BACKENDS = ("numpy", "cupy")


class Columns(list):
    """All that Paramspace asks of a data frame to make its pattern: importing pandas would double the planning time."""

    columns = property(list)

    def __getitem__(self, names):
        return Columns(names)


SWEEP = Paramspace(Columns(COLUMNS), filename_params=list(FILE_COLUMNS))


wildcard_constraints:
    **{name: r"[^/~_]+" for name in FILE_COLUMNS},
    # Several kinds of node in one workflow (nodes.smk) are told apart by their folders.
    results=re.escape(RESULTS) if NODE else r"results/(reference/)?[^/]+",
    invocation=r"\d+",
    backend=r"[a-z][a-z0-9_]*",
    implementation=r"[a-z][a-z0-9_]*",


def variant_of(wildcards):
    """The variant that a record's path names."""
    kinds = {field.name: field.type for field in dataclasses.fields(Variant)}
    return Variant(**{name: kinds[name](getattr(wildcards, name)) for name in COLUMNS})


def all_cores(wildcards):
    """Every core of this machine, so that timed jobs never share it; a cluster's profile says how many its nodes have."""
    return workflow.cores if workflow.local_exec else 1


def submission(wildcards):
    """Which measurements a cluster's submission may carry together: `measurements` in the profile's group components.

    Those of one kind of node and one backend, which ask for the same; and of one invocation, so that invocation 0 of
    everything comes first on a cluster too.
    """
    name = f"measurements_{MACHINE}_{wildcards.backend}_{wildcards.invocation}"
    workflow.parent_groupids[name] = "measurements"
    return name


# Only a profile can limit the timed jobs inside a submission to one at a time; without the limit nothing is grouped.
SUBMISSION = (
    submission
    if "timed" in workflow.resource_settings.overwrite_resource_scopes
    else None
)


def minutes(seconds):
    """What a job may take on a cluster: the supervisor's limit comes first, so that a slow job has a record."""
    return math.ceil(seconds / 60) + 2


def settings(**other):
    """What a measurement reads of the configuration; a change of it measures again."""
    chosen = {
        "seed": STUDY.seed,
        "index_sets": STUDY.index_sets,
        "input_bytes": STUDY.input_bytes,
    }
    return {**chosen, **STUDY.sampling.model_dump(), **other}


# Every measurement of the sweep has the same, and ten thousand ask for them.
SETTINGS = settings()


def study(backend, implementation):
    """Which code measures; the hash makes an edited module measure again."""
    return {"code_hash": code_hash.measurement_hash(backend, implementation)}


def code_hashes():
    """The hash of the code behind every implementation of the sweep, by backend and name."""
    found = {}
    for variant in VARIANTS:
        of_backend = found.setdefault(variant.backend, {})
        if variant.implementation not in of_backend:
            of_backend[variant.implementation] = code_hash.measurement_hash(
                variant.backend, variant.implementation
            )
    return found


def backends_named():
    """Backends of the main sweep and of the further ones."""
    return sorted({variant.backend for variant in VARIANTS})


def limits_study(backend):
    """As ``study``, for the limits of a backend."""
    code = code_hash.modules_hash(("onehot.limits", backends.MODULES[backend]))
    return {"code_hash": code}


def needs_gpu(backend):
    """1 for a backend that computes on a GPU: an executor asks its scheduler for one."""
    return 1 if backends.on_device(backend) else 0


def record_path(variant, invocation):
    """Where the record of one invocation of a variant lies."""
    return f"{RECORDS}/measurements/{variant.path}/invocation~{invocation}.json"


def reference_folders():
    """Folders of committed results."""
    return sorted(
        str(path.parent) for path in Path("results/reference").glob("*/records")
    )


def measurement_priority(wildcards):
    """Jobs run in the recorded, shuffled order: invocation 0 of everything first."""
    return len(ORDER) - ORDER[variant_of(wildcards), int(wildcards.invocation)]


def headline_variant(wildcards):
    """The variant of a full run."""
    return configuration.single_variant(
        STUDY, wildcards.implementation, wildcards.backend, STUDY.headline.minibatch
    )


def cold_start_variant(wildcards):
    """The variant of a first call."""
    return configuration.single_variant(
        STUDY, wildcards.implementation, wildcards.backend, STUDY.cold_start.minibatch
    )


def refuse_head_node():
    """The executor is known only when the jobs are planned: then a cluster needs a label for what it measures on."""
    if STUDY.machine is None and workflow.is_main_process and not workflow.local_exec:
        raise WorkflowError(
            "on a cluster say what the nodes are called: --config machine=LABEL names the results folder"
        )


def planned():
    """The plan's variants that can be measured here, once the plan is known."""
    refuse_head_node()
    with checkpoints.sweep.get().output[0].open() as file:
        plan = json.load(file)
    return [
        Variant(**one["variant"])
        for one in plan["variants"]
        if one["status"] == "planned"
    ]


def measured_records(wildcards):
    """Every record that the plan asks of this machine."""
    return planned_records()


@functools.cache
def planned_records():
    """The same, listed once: before the plan is known this raises, and nothing is remembered."""
    variants = planned()
    records = [
        record_path(variant, number)
        for variant in variants
        for number in range(INVOCATIONS[variant])
    ]
    return records + other_records(sorted({variant.backend for variant in variants}))


def other_records(present):
    """What is measured of some backends beside the sweep: whole runs, limits, first calls, ledgers, witnesses."""
    records = []
    if STUDY.headline:
        records += [
            f"{RECORDS}/headline/{backend}/{name}.json"
            for backend in present
            for name in STUDY.headline.implementation
            if implementations.find(name, backend)
        ]
    if STUDY.limits:
        records += [
            f"{RECORDS}/limits/{backend}/invocation~{number}.json"
            for backend in present
            if backend in LIMITED_BACKENDS
            for number in range(STUDY.limits.invocations)
        ]
    if STUDY.cold_start:
        records += [
            f"{RECORDS}/cold_start/{backend}/{name}/invocation~{number}.json"
            for backend in present
            for name in STUDY.cold_start.implementation
            if implementations.find(name, backend)
            for number in range(STUDY.invocations)
        ]
    return records + ledger_records(present) + witness_records(present)


def records_of(wildcards):
    """The records that a folder of results draws on: what the plan asks for, or what was committed."""
    if wildcards.results == RESULTS:
        return [
            f"{RECORDS}/plan.json",
            f"{RECORDS}/configuration.json",
            *expand(rules.probe.output, backend=backends_named()),
            *measured_records(wildcards),
        ]
    return sorted(
        str(path) for path in Path(wildcards.results, "records").rglob("*.json")
    )


def tables_of(results):
    """Every table file of a folder of results."""
    return catalogue.paths(f"{results}/tables", catalogue.TABLES)


def figures_of(results):
    """Every figure file of a folder of results."""
    return catalogue.paths(f"{results}/figures", catalogue.FIGURES)


def everything(wildcards):
    """What a whole study leaves behind; the records are named too, so that a deleted one is measured again."""
    return [*measured_records(wildcards), *tables_of(RESULTS), *figures_of(RESULTS)]


def module_files(*modules):
    """The files of modules and of all that they import here: an edit of one draws tables or figures again."""
    return [str(path) for path in code_hash.files(modules)]


def table_outputs(results):
    """Table files; the ones for readers go into the report."""
    return [
        described(
            f"{results}/tables/{item.name}.{ending}", item, "tables", ending == "html"
        )
        for item in catalogue.TABLES
        for ending in item.formats
    ]


def described(path, item, kind, in_report):
    """A file with its caption, category and label in the report, where it goes into the report."""
    if not in_report:
        return path
    return report(
        path,
        caption=f"../report/{kind}/{item.name}.rst",
        category=item.category,
        labels={kind.removesuffix("s"): item.title},
    )


def measurement_job(wildcards):
    """What one measurement is told, as text: the whole of what it depends on."""
    job = {
        "variant": dataclasses.asdict(variant_of(wildcards)),
        "invocation": int(wildcards.invocation),
        "settings": SETTINGS,
        "study": study(wildcards.backend, wildcards.implementation),
        "first": first_invocation(wildcards),
    }
    return json.dumps(job)


def first_invocation(wildcards):
    """Where invocation 0 left its record: a variant that it gave up is not tried again.

    A parameter and no input: Snakemake measures a job again for a changed parameter only where none of its inputs is
    about to be made anew.
    """
    return (
        None if wildcards.invocation == "0" else record_path(variant_of(wildcards), 0)
    )


def traced_variant(wildcards):
    """The variant whose one call is counted."""
    return configuration.single_variant(
        STUDY, wildcards.implementation, wildcards.backend, STUDY.trace.minibatch
    )


def tracing_study(wildcards):
    """Which code counts; see ``study``."""
    entry = implementations.get(wildcards.implementation, wildcards.backend)
    modules = ("onehot.ledger", backends.MODULES[wildcards.backend], entry.module)
    return {"code_hash": code_hash.modules_hash(modules)}


def cupti_version():
    """The counter's version: installing one counts again."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("cupti-python")
    except PackageNotFoundError:
        return None


def ledger_records(present):
    """The ledger of every implementation that the study measures on a backend that runs here."""
    if not STUDY.trace:
        return []
    pairs = {
        (variant.backend, variant.implementation)
        for variant in VARIANTS
        if variant.backend in present
    }
    return [
        f"{RECORDS}/ledger/{backend}/{name}.json" for backend, name in sorted(pairs)
    ]


def witnessed_variant(wildcards):
    """The variant that another benchmark times too."""
    return configuration.single_variant(
        STUDY, wildcards.implementation, wildcards.backend, int(wildcards.minibatch)
    )


def witness_study(wildcards):
    """Which code asks the witness; see ``study``."""
    entry = implementations.get(wildcards.implementation, wildcards.backend)
    modules = ("onehot.witness", backends.MODULES[wildcards.backend], entry.module)
    return {"code_hash": code_hash.modules_hash(modules)}


def witness_records(present):
    """What another benchmark is asked for: nothing, where the configuration names no witness."""
    if not STUDY.witness:
        return []
    return [
        f"{RECORDS}/witness/{backend}/{name}/minibatch~{minibatch}.json"
        for backend in present
        if backend in installation.WITNESSES
        for name in STUDY.witness.implementation
        if implementations.find(name, backend)
        for minibatch in STUDY.witness.minibatch
    ]


def tables_read(wildcards):
    """The tables that figures read."""
    return [f"{wildcards.results}/tables/{name}.csv" for name in catalogue.DRAWN_TABLES]


def figure_outputs(results):
    """Figure files; the scalable ones go into the report."""
    return [
        described(
            f"{results}/figures/{item.name}.{ending}", item, "figures", ending == "svg"
        )
        for item in catalogue.FIGURES
        for ending in item.formats
    ]
