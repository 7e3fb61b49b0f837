rule witness:
    output:
        f"{RECORDS}/witness/{{backend}}/{{implementation}}/minibatch~{{minibatch}}.json",
    log:
        f"{LOGS}/witness/{{backend}}/{{implementation}}/minibatch~{{minibatch}}.log",
    priority: BEFORE_THE_SWEEP
    threads: all_cores
    resources:
        **NODE,
        gpu=lambda wildcards: needs_gpu(wildcards.backend),
        runtime=minutes(STUDY.sampling.timeout_seconds),
    params:
        variant=lambda wildcards: dataclasses.asdict(witnessed_variant(wildcards)),
        settings=settings(),
        study=witness_study,
        tool=lambda wildcards: installation.witness(wildcards.backend),
    message:
        "asking another benchmark for {wildcards.implementation} on {wildcards.backend}, "
        "minibatch {wildcards.minibatch}"
    script:
        "../../scripts/witness.py"
