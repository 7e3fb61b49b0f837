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
