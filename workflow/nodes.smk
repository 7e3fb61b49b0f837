# Kinds of node side by side: snakemake --snakefile workflow/nodes.smk --profile workflow/profiles/slurm --configfile NODES
# Each label of `nodes` is a whole study of its own: its limits, records, tables and figures lie below results/LABEL.
import re
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

min_version("9.27")


configfile: "config/config.yaml"


def kinds_of_node(found):
    """The labels with the resources that a scheduler tells the nodes by."""
    if not isinstance(found, dict) or not found:
        raise WorkflowError(
            "nodes: name the kinds of node, each with what it is asked for: {LABEL: {constraint: NAME}}"
        )
    for label, resources in found.items():
        if not re.fullmatch(r"[a-z][a-z0-9_]*", str(label)):
            raise WorkflowError(
                f"nodes.{label}: a label is of a-z, 0-9 and _, and begins with a letter"
            )
        if not isinstance(resources, dict) or not resources:
            raise WorkflowError(
                f"nodes.{label}: say how a scheduler finds it, as {{constraint: NAME}}; found {resources!r}"
            )
    return found


NODES = kinds_of_node(config.pop("nodes", None))
COMPARISONS = ["machines", "summary", "speedup"]

for label, node in NODES.items():
    prefix = f"{label}_"

    module:
        name: label
        snakefile:
            "Snakefile"
        config:
            {**config, "machine": label, "node": node}

    use rule * from label as prefix*


include: "rules/compare.smk"


rule nodes:
    default_target: True
    input:
        [f"results/{label}/tables/status.csv" for label in NODES],
        rules.compare.output,
    localrule: True
    message:
        "every kind of node is measured and compared: see results/comparison"
