rule probe:
    output:
        f"{RECORDS}/backends/{{backend}}.json",
    log:
        f"{LOGS}/probe/{{backend}}.log",
    params:
        study={},
        timeout_seconds=STUDY.sampling.timeout_seconds,
        installed=lambda wildcards: installation(wildcards.backend),
    threads: all_cores
    resources:
        gpu=lambda wildcards: needs_gpu(wildcards.backend),
    message:
        "asking backend {wildcards.backend} for one kernel"
    script:
        "../../scripts/probe.py"


rule configuration:
    output:
        f"{RECORDS}/configuration.json",
    log:
        f"{LOGS}/configuration.log",
    params:
        machine=MACHINE,
        configuration=STUDY.model_dump(mode="json"),
    message:
        "writing down the configuration"
    script:
        "../../scripts/configuration.py"


# Of the configuration it knows the factors alone: whatever else changes, the plan stands, and a dry run can tell what
# the change would measure again.
checkpoint plan:
    input:
        expand(rules.probe.output, backend=backends_named()),
    output:
        f"{RECORDS}/plan.json",
    log:
        f"{LOGS}/plan.log",
    params:
        machine=MACHINE,
        factors=configuration.factors(STUDY),
    message:
        "planning {MACHINE}"
    script:
        "../../scripts/plan.py"
