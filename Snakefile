# The front door: `snakemake --cores 1` finds this file; the workflow catalog looks for the one it includes.
include: "workflow/Snakefile"


# An included file never sets the default target (Snakemake 9.27), so this one names it.
rule study:
    default_target: True
    input:
        everything,
    localrule: True
    message:
        "the study of {MACHINE} is complete: see {RESULTS}"
