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


rule figures:
    input:
        tables=tables_read,
        configuration="{results}/records/configuration.json",
        code=module_files("onehot.figures", "onehot.explanation_figures"),
    output:
        figure_outputs("{results}"),
    log:
        "{results}/logs/figures.log",
    params:
        tables="{results}/tables",
        machine=lambda wildcards: Path(wildcards.results).name,
    message:
        "drawing the figures of {wildcards.results}"
    script:
        "../../scripts/figures.py"
