def records_by_label(wildcards):
    """The records of each kind of node, looked for once their tables are there."""
    return {
        label: sorted(map(str, Path(f"results/{label}/records").rglob("*.json")))
        for label in NODES
    }


rule compare:
    input:
        [f"results/{label}/tables/summary.csv" for label in NODES],
    output:
        tables=expand("results/comparison/tables/{name}.csv", name=COMPARISONS),
        figures=expand(
            "results/comparison/figures/speedup.{ending}", ending=["svg", "pdf", "png"]
        ),
    log:
        "results/comparison/logs/compare.log",
    params:
        records=records_by_label,
    message:
        f"comparing {', '.join(NODES)}"
    script:
        "../../scripts/compare.py"
