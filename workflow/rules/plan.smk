rule probe:
    output:
        f"{RECORDS}/backends/{{backend}}.json",
    log:
        f"{LOGS}/probe/{{backend}}.log",
    threads: all_cores
    resources:
        **NODE,
        gpu=lambda wildcards: needs_gpu(wildcards.backend),
        runtime=minutes(STUDY.sampling.timeout_seconds),
    params:
        study={},
        timeout_seconds=STUDY.sampling.timeout_seconds,
        installed=lambda wildcards: installation.found(wildcards.backend),
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
checkpoint sweep:
    input:
        expand(rules.probe.output, backend=backends_named()),
    output:
        f"{RECORDS}/plan.json",
    log:
        f"{LOGS}/sweep.log",
    localrule: True
    params:
        machine=MACHINE,
        factors=configuration.factors(STUDY),
    message:
        f"listing what is to be measured on {MACHINE}"
    script:
        "../../scripts/plan.py"


rule plan:
    input:
        rules.sweep.output,
    log:
        f"{LOGS}/plan.log",
    localrule: True
    params:
        configuration=STUDY.model_dump(mode="json"),
        records=lambda wildcards, input: str(Path(input[0]).parent),
        others=other_records(backends_named()),
        code_hashes=code_hashes(),
    message:
        "what is to be measured"
    script:
        "../../scripts/print_plan.py"
