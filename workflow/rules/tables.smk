rule tables:
    input:
        records=records_of,
        code=module_files(
            "onehot.tables", "onehot.explanation_presentation", "onehot.advice"
        ),
    output:
        table_outputs("{results}"),
    log:
        "{results}/logs/tables.log",
    message:
        "writing the tables of {wildcards.results}"
    script:
        "../../scripts/tables.py"
