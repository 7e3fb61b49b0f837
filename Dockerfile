# The study's environment on CUDA 12, for a cluster that runs containers. The checkout itself is mounted, not copied:
#   docker build -t onehot-lookup-benchmark .
#   docker run --gpus all -v "$PWD:/study" -w /study onehot-lookup-benchmark snakemake --cores 1
FROM nvidia/cuda:12.9.1-runtime-ubuntu24.04

# Ubuntu's archive keeps no superseded release of a package, so a pinned version would stop this build within weeks.
# hadolint ignore=DL3008
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends git python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*

# The runtime image has CUDA's libraries and no headers, and CuPy compiles its kernels with headers: the ctk lock brings them.
COPY requirements/ctk.txt /opt/study/requirements.txt
RUN python3 -m venv /opt/study/venv \
    && /opt/study/venv/bin/python -m pip install --no-cache-dir --require-hashes -r /opt/study/requirements.txt
ENV PATH=/opt/study/venv/bin:$PATH
