rule limits:
    output:
        f"{RECORDS}/limits/{{backend}}/invocation~{{invocation}}.json",
    log:
        f"{LOGS}/limits/{{backend}}/invocation~{{invocation}}.log",
    # Before the sweep: a machine that is not what it should be shows here first.
    priority: BEFORE_THE_SWEEP
    threads: all_cores
    resources:
        **NODE,
        gpu=lambda wildcards: needs_gpu(wildcards.backend),
        runtime=minutes(STUDY.sampling.timeout_seconds),
    params:
        backend=lambda wildcards: wildcards.backend,
        settings=lambda wildcards: {
            "seed": STUDY.seed,
            "timeout_seconds": STUDY.sampling.timeout_seconds,
        },
        study=lambda wildcards: limits_study(wildcards.backend),
    message:
        "measuring the limits of {wildcards.backend}, invocation {wildcards.invocation}"
    script:
        "../../scripts/limits.py"
