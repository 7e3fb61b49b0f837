def write_report(path):
    """Write the report from the jobs of the run that has just ended, as `snakemake --report PATH` would."""
    from snakemake.report import auto_report
    from snakemake.report.html_reporter import ReportSettings
    from snakemake.settings.types import GlobalReportSettings
    from snakemake_interface_report_plugins.registry import ReportPluginRegistry

    reporter = ReportPluginRegistry().get_plugin("html")
    settings = ReportSettings(path=Path(path))
    workflow.async_run(
        auto_report(workflow.dag, reporter, settings, GlobalReportSettings())
    )


def whole_study():
    """Whether this run was asked for the study, not for one file or the committed records."""
    return any(job.rule.name in ("study", "all") for job in workflow.dag.targetjobs)


def leave_report(path):
    """Write the report of a whole study; whatever hinders it, the study itself has succeeded."""
    if not whole_study():
        return
    try:
        write_report(path)
    except Exception as error:
        print(f"{path} was not written: {error}", file=sys.stderr)
        print(f"write it with: snakemake --report {path}", file=sys.stderr)


# --report-after-run would need a profile, and a plain `snakemake --cores 1` in a workflow of two Snakefiles may have
# none. A dry run, and the Snakemake inside a cluster's job, run no such hook.
onsuccess:
    leave_report(f"{RESULTS}/report.html")
