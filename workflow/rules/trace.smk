rule trace:
    output:
        f"{RECORDS}/ledger/{{backend}}/{{implementation}}.json",
    log:
        f"{LOGS}/ledger/{{backend}}/{{implementation}}.log",
    priority: BEFORE_THE_SWEEP
    threads: all_cores
    resources:
        **NODE,
        gpu=lambda wildcards: needs_gpu(wildcards.backend),
        runtime=minutes(STUDY.sampling.timeout_seconds),
    params:
        variant=lambda wildcards: dataclasses.asdict(traced_variant(wildcards)),
        settings=settings(),
        study=tracing_study,
        cupti=cupti_version(),
    message:
        "counting what one call of {wildcards.implementation} asks of {wildcards.backend}"
    script:
        "../../scripts/trace.py"
