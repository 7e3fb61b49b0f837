rule measure:
    output:
        f"{RECORDS}/measurements/{SWEEP.wildcard_pattern}/invocation~{{invocation}}.json",
    log:
        f"{LOGS}/measurements/{SWEEP.wildcard_pattern}/invocation~{{invocation}}.log",
    priority: lambda wildcards: measurement_priority(wildcards)
    group:
        SUBMISSION
    threads: all_cores
    resources:
        **NODE,
        gpu=lambda wildcards: needs_gpu(wildcards.backend),
        runtime=minutes(STUDY.sampling.timeout_seconds),
    params:
        job=measurement_job,
    message:
        "measuring {wildcards.backend} {wildcards.implementation}, minibatch {wildcards.minibatch}, "
        "invocation {wildcards.invocation}"
    script:
        "../../scripts/measure.sh"


rule headline:
    output:
        f"{RECORDS}/headline/{{backend}}/{{implementation}}.json",
    log:
        f"{LOGS}/headline/{{backend}}/{{implementation}}.log",
    priority: BEFORE_THE_SWEEP
    threads: all_cores
    resources:
        **NODE,
        gpu=lambda wildcards: needs_gpu(wildcards.backend),
        runtime=lambda wildcards: minutes(STUDY.headline.timeout_seconds),
    params:
        variant=lambda wildcards: dataclasses.asdict(headline_variant(wildcards)),
        minibatches=lambda wildcards: STUDY.headline.minibatches,
        settings=lambda wildcards: settings(
            timeout_seconds=STUDY.headline.timeout_seconds
        ),
        study=lambda wildcards: study(wildcards.backend, wildcards.implementation),
    message:
        "running all minibatches of {wildcards.implementation} on {wildcards.backend}"
    script:
        "../../scripts/headline.py"


rule cold_start:
    output:
        f"{RECORDS}/cold_start/{{backend}}/{{implementation}}/invocation~{{invocation}}.json",
    log:
        f"{LOGS}/cold_start/{{backend}}/{{implementation}}/invocation~{{invocation}}.log",
    priority: BEFORE_THE_SWEEP
    threads: all_cores
    resources:
        **NODE,
        gpu=lambda wildcards: needs_gpu(wildcards.backend),
        runtime=minutes(3 * STUDY.sampling.timeout_seconds),
    params:
        variant=lambda wildcards: dataclasses.asdict(cold_start_variant(wildcards)),
        settings=settings(),
        study=lambda wildcards: study(wildcards.backend, wildcards.implementation),
    message:
        "first call of {wildcards.implementation} on {wildcards.backend}, invocation {wildcards.invocation}"
    script:
        "../../scripts/cold_start.py"
