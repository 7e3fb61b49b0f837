def traced_variant(wildcards):
    """The variant whose one call is counted."""
    return configuration.single_variant(
        STUDY, wildcards.implementation, wildcards.backend, STUDY.trace.minibatch
    )


def tracing_study(wildcards):
    """Which code counts; see ``study``."""
    entry = implementations.get(wildcards.implementation, wildcards.backend)
    modules = ("onehot.ledger", backends.MODULES[wildcards.backend], entry.module)
    return {"code_hash": code_hash.modules_hash(modules)}


def cupti_version():
    """The counter's version: installing one counts again."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("cupti-python")
    except PackageNotFoundError:
        return None


def ledger_records(present):
    """The ledger of every implementation that the study measures on a backend that runs here."""
    if not STUDY.trace:
        return []
    pairs = {
        (variant.backend, variant.implementation)
        for variant in VARIANTS
        if variant.backend in present
    }
    return [
        f"{RECORDS}/ledger/{backend}/{name}.json" for backend, name in sorted(pairs)
    ]


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
