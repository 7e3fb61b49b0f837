# Rule measure, by the shell: a script of Python's would first import Snakemake, which takes longer than many a measurement.
exec "${STUDY_PYTHON:-python3}" "${snakemake[scriptdir]}/measure.py" \
    "${snakemake_params[job]}" "${snakemake_output[0]}" "${snakemake_log[0]}"
