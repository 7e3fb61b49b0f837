rule probe:
    output:
        f"{RECORDS}/backends/{{backend}}.json",
    log:
        f"{LOGS}/probe/{{backend}}.log",
    params:
        study=lambda wildcards: {"root": str(STUDY_ROOT)},
        timeout_seconds=STUDY.sampling.timeout_seconds,
        installed=lambda wildcards: installation(wildcards.backend),
    threads: all_cores
    resources:
        gpu=lambda wildcards: needs_gpu(wildcards.backend),
    message:
        "asking backend {wildcards.backend} for one kernel"
    script:
        "../../scripts/probe.py"


checkpoint plan:
    input:
        expand(rules.probe.output, backend=backends_named()),
    output:
        f"{RECORDS}/plan.json",
    log:
        f"{LOGS}/plan.log",
    params:
        machine=MACHINE,
        variants=len(VARIANTS),
        configuration=STUDY.model_dump(mode="json"),
    message:
        "planning {MACHINE}"
    script:
        "../../scripts/plan.py"
