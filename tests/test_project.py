"""The project's own files agree with each other, and hold nothing of the machine that they were written on.

Each check is a function from a checkout's folder to the list of what is wrong in it. The checkout must give
empty lists; a copy with one fault planted in it must not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import collect_wheels
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
LEFT_BEHIND = {".venv", ".snakemake", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", "wheels"}
Check = Callable[[Path], list[str]]


# What the files say


@dataclass(frozen=True)
class Locked:
    """One requirement of a lock."""

    version: str
    marker: str
    hashes: str


def project(root: Path) -> dict:
    return tomllib.loads((root / "pyproject.toml").read_text())["project"]


def own_requirements(lines: list[str]) -> list[Requirement]:
    """Read a list of dependencies, without the extras of this project that an extra includes."""
    requirements = [Requirement(line) for line in lines]
    return [requirement for requirement in requirements if requirement.name != "onehot-lookup-benchmark"]


def wanted(root: Path) -> dict[str, list[Requirement]]:
    """Give, for the name of each lock, what pyproject.toml asks of it."""
    metadata = project(root)
    asked = {"run": metadata["dependencies"], **metadata["optional-dependencies"]}
    return {name: own_requirements(lines) for name, lines in asked.items()}


def lock_path(root: Path, name: str) -> Path:
    return root / "requirements" / f"{name}.txt"


def locked(root: Path, name: str) -> dict[str, Locked]:
    """Read a lock: each package's one version, the marker it is installed under, and its hashes."""
    entries = {}
    for requirement, hashes in collect_wheels.locked_lines(lock_path(root, name).read_text()):
        (pin,) = requirement.specifier
        entry = Locked(pin.version, str(requirement.marker or ""), hashes)
        entries[canonicalize_name(requirement.name)] = entry
    return entries


def conda_environment(root: Path) -> dict:
    return yaml.safe_load((root / "environment.yml").read_text())


def conda_requirements(root: Path) -> list[Requirement]:
    """Give what conda and its pip section install, except Python and pip themselves."""
    requirements = []
    for entry in conda_environment(root)["dependencies"]:
        lines = entry["pip"] if isinstance(entry, dict) else [entry]
        requirements += [Requirement(line) for line in lines]
    return [requirement for requirement in requirements if requirement.name not in {"python", "pip"}]


def project_files(root: Path) -> list[Path]:
    """List the files that are or would be committed; without git, all but what the tools leave behind."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if not (root / ".git").exists():
        tops = [path for path in root.iterdir() if path.name not in LEFT_BEHIND]
        files = [path for top in tops for path in [top, *top.rglob("*")] if path.is_file()]
        return [path for path in files if "__pycache__" not in path.parts]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [root / name for name in names.split("\0") if name and (root / name).is_file()]


# Dependencies


def unlocked_dependencies(root: Path) -> list[str]:
    """What pyproject.toml asks for and a lock does not have, or has in a version outside the bounds."""
    wrong = []
    for name, requirements in wanted(root).items():
        have = locked(root, name) if lock_path(root, name).exists() else {}
        for requirement in requirements:
            entry = have.get(canonicalize_name(requirement.name))
            if entry is None or not requirement.specifier.contains(entry.version, prereleases=True):
                wrong.append(f"requirements/{name}.txt: {requirement} wanted, {entry} locked; run make lock")
    return wrong


def locks_nobody_asked_for(root: Path) -> list[str]:
    names = {path.stem for path in (root / "requirements").iterdir()}
    return [f"requirements/{name}.txt: no such extra" for name in names - wanted(root).keys()]


def locks_that_differ(root: Path) -> list[str]:
    """Packages of the default lock that another has otherwise: one could not be installed over the other."""
    default = locked(root, "run")
    wrong = []
    for name in wanted(root).keys() - {"run"}:
        other = locked(root, name)
        wrong += [
            f"requirements/{name}.txt: {package} {other.get(package)}, in run.txt {entry}"
            for package, entry in default.items()
            if package not in other or other[package].version != entry.version
        ]
    return wrong


def unhashed_requirements(root: Path) -> list[str]:
    hashes = re.compile(r"(--hash=sha256:[0-9a-f]{64}\s*)+")
    return [
        f"requirements/{name}.txt: {package} has no hash, or one that is no SHA-256"
        for name in wanted(root)
        for package, entry in locked(root, name).items()
        if not hashes.fullmatch(entry.hashes)
    ]


def conda_disagreements(root: Path) -> list[str]:
    """Where environment.yml installs other packages or other versions than the default lock."""
    conda = {requirement.name: requirement for requirement in conda_requirements(root)}
    names = {requirement.name for requirement in wanted(root)["run"]}
    have = locked(root, "run")
    wrong = [f"environment.yml lacks {name}" for name in names - conda.keys()]
    wrong += [f"environment.yml has {name}, pyproject.toml has not" for name in conda.keys() - names]
    for name in names & conda.keys():
        if str(conda[name].specifier) != f"=={have[name].version}":
            wrong.append(f"environment.yml: {conda[name]}, locked: {have[name].version}")
        if str(conda[name].marker or "") != have[name].marker:
            wrong.append(f"environment.yml: {conda[name]}, locked under the marker {have[name].marker!r}")
    return wrong


def conda_channel_faults(root: Path) -> list[str]:
    channels = conda_environment(root)["channels"]
    if channels == ["conda-forge", "bioconda", "nodefaults"]:
        return []
    return [f"environment.yml: channels {channels}"]


def python_bounds_that_differ(root: Path) -> list[str]:
    lowest = project(root)["requires-python"]
    if f"python {lowest}" in conda_environment(root)["dependencies"]:
        return []
    return [f"environment.yml: another Python than the {lowest} of pyproject.toml"]


def hook_versions_that_differ(root: Path) -> list[str]:
    """Tools that pre-commit would run in another version than `make lint`."""
    have = locked(root, "test")
    repositories = yaml.safe_load((root / ".pre-commit-config.yaml").read_text())["repos"]
    pins = [pin for repo in repositories for hook in repo["hooks"] for pin in hook["additional_dependencies"]]
    return [pin for pin in pins if pin not in {f"{name}=={entry.version}" for name, entry in have.items()}]


# Containers, citation, licence


def container_disagreements(root: Path) -> list[str]:
    """Where the two container definitions differ: the base, the lock, Debian's packages."""
    docker, apptainer = (root / "Dockerfile").read_text(), (root / "container" / "study.def").read_text()
    patterns = {
        "base image": r"^F(?:ROM|rom:) (\S+)$",
        "lock": r"\brequirements/(\w+)\.txt\b",
        "packages": r"--no-install-recommends ([a-z0-9 -]+?)\s*\\?$",
    }
    wrong = []
    for what, pattern in patterns.items():
        first, second = (re.findall(pattern, text, re.MULTILINE) for text in (docker, apptainer))
        if not first or first != second:
            wrong.append(f"{what}: {first} in Dockerfile, {second} in container/study.def")
    return wrong


def container_base_faults(root: Path) -> list[str]:
    base = re.findall(r"^FROM (\S+)$", (root / "Dockerfile").read_text(), re.MULTILINE)
    cuda_12 = re.compile(r"nvidia/cuda:12\.\d+\.\d+-runtime-ubuntu\d\d\.04")
    return [f"Dockerfile: {image} is no CUDA 12 runtime" for image in base if not cuda_12.fullmatch(image)]


def citation_disagreements(root: Path) -> list[str]:
    citation, metadata = yaml.safe_load((root / "CITATION.cff").read_text()), project(root)
    pairs = {
        "cff-version": (citation["cff-version"], "1.2.0"),
        "version": (citation["version"], metadata["version"]),
        "license": (citation["license"], metadata["license"]),
        "authors": (citation["authors"], metadata["authors"]),
        "type": (citation["type"], "software"),
    }
    wrong = [f"CITATION.cff: {key} {have}, not {want}" for key, (have, want) in pairs.items() if have != want]
    return wrong + [f"CITATION.cff: no {key}" for key in ("message", "title") if not citation.get(key)]


NEEDED = (
    "Snakefile",
    "workflow/Snakefile",
    "config/config.yaml",
    "config/smoke.yaml",
    "config/README.md",
    "environment.yml",
    "LICENSE",
    "CITATION.cff",
    "CHANGELOG.md",
    "README.md",
    "CONTRIBUTING.md",
    ".ci/run",
    ".pre-commit-config.yaml",
    ".snakemake-workflow-catalog.yml",
)


def missing_files(root: Path) -> list[str]:
    return [f"{name} is missing" for name in NEEDED if not (root / name).is_file()]


def readme_commands_without_target(root: Path) -> list[str]:
    """`make` commands in the documents that the Makefile does not know."""
    declared = re.search(r"^\.PHONY: (.+)$", (root / "Makefile").read_text(), re.MULTILINE)
    targets = declared[1].split() if declared else []
    documents = [root / name for name in ("README.md", "CONTRIBUTING.md", "config/README.md", "CHANGELOG.md")]
    wrong = []
    for document in documents:
        text = document.read_text() if document.exists() else ""
        named = re.findall(r"(?:^\s*\$?\s*|`|&& )make ([a-z]+)", text, re.MULTILINE)
        wrong += [f"{document.name}: make {name}" for name in named if name not in targets]
    return wrong


def readme_without_first_commands(root: Path) -> list[str]:
    readme = root / "README.md"
    text = readme.read_text() if readme.exists() else ""
    first = re.findall(r"^\s*\$?\s*make (\w+)", text, re.MULTILINE)[:2]
    wrong = [] if first == ["study", "test"] else [f"README.md: first commands are make {first}"]
    return wrong + ([] if "cupy-cuda12x[ctk]" in text else ["README.md: no line with cupy-cuda12x[ctk]"])


# Nothing of a machine or of a registry

FORBIDDEN = {
    "host name of a package or image registry": re.compile(
        r"\b(?:pypi\.(?:org|python)|pythonhosted\.|(?:repo\.)?anaconda\.(?:org|com)|registry\.npmjs|(?:deb|archive)\.debian"
        r"|archive\.ubuntu|nvcr\.io|ghcr\.io|quay\.io|docker\.io)"
    ),
    "address of a package index": re.compile(r"--(?:extra-)?index-url|--find-links[= ]+(?:file:|https?:|/)"),
    "path of one machine": re.compile(r"(?<![\w.$}~-])/(?:root|work|home)/\w|[.]pyenv/"),
}


def forbidden_text(root: Path) -> list[str]:
    """Where a file that is or would be committed names a registry, an index or a place on one machine."""
    wrong = []
    for path in project_files(root):
        for number, line in enumerate(path.read_bytes().decode(errors="replace").splitlines(), start=1):
            wrong += [
                f"{path.relative_to(root)}:{number}: {what}: {found[0]}"
                for what, pattern in FORBIDDEN.items()
                if (found := pattern.search(line))
            ]
    return wrong


def foreign_locks(root: Path) -> list[str]:
    foreign = {"uv.lock", "poetry.lock", "Pipfile.lock"}
    return [f"{path} is not this project's lock" for path in project_files(root) if path.name in foreign]


CHECKS: tuple[Check, ...] = (
    unlocked_dependencies,
    locks_nobody_asked_for,
    locks_that_differ,
    unhashed_requirements,
    conda_disagreements,
    conda_channel_faults,
    python_bounds_that_differ,
    hook_versions_that_differ,
    container_disagreements,
    container_base_faults,
    citation_disagreements,
    missing_files,
    readme_commands_without_target,
    readme_without_first_commands,
    forbidden_text,
    foreign_locks,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_project_agrees_with_itself(check: Check):
    assert check(ROOT) == []


# A check that could not fail would be none: each planted fault is found by the check named beside it


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Give a copy of the project's files, without results and without git."""
    for path in project_files(ROOT):
        if path.relative_to(ROOT).parts[0] not in {"results", "tests"}:
            target = tmp_path / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    (tmp_path / "README.md").write_text("    make study\n    make test\n\ncupy-cuda12x[ctk]\n")
    return tmp_path


PLANTED = [
    (unlocked_dependencies, "pyproject.toml", '"jinja2"', '"jinja2", "not-locked"'),
    (unlocked_dependencies, "pyproject.toml", '"numpy>=2"', '"numpy>=99"'),
    (locks_nobody_asked_for, "pyproject.toml", r"witness = \[", "wetness = ["),
    (locks_that_differ, "requirements/slurm.txt", r"numpy==\S+", "numpy==2.0.0"),
    (unhashed_requirements, "requirements/run.txt", r"(jinja2==\S+) \\\n(    --hash=\S+( \\)?\n)+", r"\1\n"),
    (conda_disagreements, "environment.yml", r"pandas==\S+", "pandas==2.2.0"),
    (conda_disagreements, "environment.yml", r"  - scipy\S+\n", ""),
    (conda_disagreements, "environment.yml", r"  - scipy", "  - dask==1.0\n  - scipy"),
    (conda_disagreements, "environment.yml", r" ; sys_platform.*", ""),
    (conda_channel_faults, "environment.yml", "nodefaults", "defaults"),
    (python_bounds_that_differ, "environment.yml", r"python >=\S+", "python >=3.9"),
    (hook_versions_that_differ, ".pre-commit-config.yaml", r"ruff==\S+\]", "ruff==0.1.0]"),
    (container_disagreements, "container/study.def", r"cuda:12\S+", "cuda:12.0.0-runtime-ubuntu24.04"),
    (container_disagreements, "Dockerfile", "requirements/ctk.txt", "requirements/run.txt"),
    (container_base_faults, "Dockerfile", "FROM nvidia/cuda:12", "FROM nvidia/cuda:11"),
    (citation_disagreements, "CITATION.cff", "version: 0", "version: 9"),
    (readme_commands_without_target, "README.md", "make test", "make tests"),
    (readme_without_first_commands, "README.md", "make study", "make all"),
    (readme_without_first_commands, "README.md", r"\[ctk\]", ""),
    (forbidden_text, "Makefile", r"\Z", "# see " + "pypi" + ".org\n"),
    (forbidden_text, "requirements/run.txt", r"\A", "--index" + "-url somewhere\n"),
    (forbidden_text, "environment.yml", r"\Z", "# made in /" + "root/study\n"),
]


@pytest.mark.parametrize(("check", "name", "pattern", "replacement"), PLANTED)
def test_a_planted_fault_is_found(copy: Path, check: Check, name: str, pattern: str, replacement: str):
    assert check(copy) == []
    text = (copy / name).read_text()
    planted = re.sub(pattern, replacement, text)
    assert planted != text, "nothing was planted"
    (copy / name).write_text(planted)
    assert check(copy) != []


def test_a_missing_licence_and_a_foreign_lock_are_found(copy: Path):
    (copy / "LICENSE").unlink()
    (copy / "uv.lock").touch()
    assert "LICENSE is missing" in missing_files(copy)
    assert len(foreign_locks(copy)) == 1


# The locks, for the machines that they are for


@pytest.mark.parametrize("python_version", PYTHONS)
@pytest.mark.parametrize("name", ["run", "slurm", "test"])
def test_a_lock_has_one_version_of_each_package_on_linux(name: str, python_version: str):
    environment = collect_wheels.marker_environment(python_version, "manylinux_2_28_x86_64")
    lines = collect_wheels.requirements_for(lock_path(ROOT, name).read_text(), environment).splitlines()
    names = [line.partition("==")[0] for line in lines]
    assert len(names) == len(set(names)) > 50
    assert {"snakemake", "cupy-cuda12x"} <= set(names)


def test_cupy_is_left_out_where_there_is_no_wheel_of_it():
    environment = collect_wheels.marker_environment("3.12", "macosx_11_0_arm64")
    assert "cupy" not in collect_wheels.requirements_for(lock_path(ROOT, "run").read_text(), environment)


# The environment that make prepares

# A Python with venv and pip, which makes an environment by copying itself into it.
PRETENDING = """#!/bin/sh
case "$*" in
*'print("%d.%d"'*) echo {version} ;;
*'sys.exit'*) [ {version} != 3.9 ] ;;
*ensurepip*) exit {venv_missing} ;;
*'-m venv'*) echo made; mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
*'-m pip install'*) echo installed ;;
esac
"""


@dataclass(frozen=True)
class Checkout:
    """A folder with locks, and a Python that only pretends."""

    root: Path

    def environment(self, *locks: str, version: str = "3.12", venv_missing: int = 0, **variables: str):
        python = self.root / "python"
        python.write_text(PRETENDING.format(version=version, venv_missing=venv_missing))
        python.chmod(0o755)
        command = ["sh", str(ROOT / "scripts" / "environment.sh"), *locks]
        variables = {"PATH": os.environ["PATH"], "PYTHON": str(python), **variables}
        return subprocess.run(
            command, cwd=self.root, env=variables, capture_output=True, text=True, check=False
        )

    def events(self, *locks: str, **variables: str) -> list[str]:
        lines = self.environment(*locks, **variables).stdout.splitlines()
        return [line for line in lines if line in {"made", "installed"}]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    (tmp_path / "requirements").mkdir()
    for name in ("run", "test"):
        (tmp_path / "requirements" / f"{name}.txt").write_text("numpy==2.4.6\n")
    return Checkout(tmp_path)


def test_an_installed_lock_is_not_installed_again(checkout: Checkout):
    assert checkout.events("run") == ["made", "installed"]
    assert checkout.events("run") == []
    assert checkout.events("run", "test") == ["installed"]
    assert checkout.events("run", "test") == []
    assert checkout.events("run") == []


def test_a_changed_lock_makes_the_environment_anew(checkout: Checkout):
    checkout.events("run", "test")
    (checkout.root / "requirements" / "test.txt").write_text("numpy==2.4.7\n")
    assert checkout.events("run") == ["made", "installed"]


def test_an_interrupted_installation_starts_again(checkout: Checkout):
    checkout.events("run")
    (checkout.root / ".venv" / "locks" / "run.txt").unlink()
    assert checkout.events("run") == ["made", "installed"]


def test_only_a_python_asked_for_by_name_replaces_another_version(checkout: Checkout):
    checkout.events("run")
    assert checkout.events("run", version="3.13") == []
    assert checkout.events("run", version="3.13", PYTHON_ASKED="command line") == ["made", "installed"]


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"version": "3.9"}, "is Python 3.9; name a Python 3.11 or newer"),
        ({"venv_missing": 1}, "has no venv module; install it"),
        ({"PYTHON": "no-such-python"}, "'no-such-python' does not run"),
    ],
)
def test_a_python_that_will_not_do_is_refused_with_what_to_do(checkout: Checkout, variables, message):
    result = checkout.environment("run", **variables)
    assert result.returncode == 1
    assert message in result.stderr
    assert not (checkout.root / ".venv").exists()


def test_an_unknown_lock_is_refused_with_the_known_ones(checkout: Checkout):
    result = checkout.environment("run", "tset")
    assert result.returncode == 1
    assert "there is no lock 'tset'; there are: run test" in result.stderr


# Wheels for a machine without a network


def test_markers_are_read_for_the_other_machine():
    windows = 'a==1 ; sys_platform == "win32" \\\n    --hash=sha256:1\n'
    older = 'b==2 ; python_version < "3.12" \\\n    --hash=sha256:2\n'

    def kept(python_version: str, platform: str) -> list[str]:
        environment = collect_wheels.marker_environment(python_version, platform)
        return collect_wheels.requirements_for(windows + older, environment).splitlines()

    assert kept("3.11", "win_amd64") == ["a==1 --hash=sha256:1", "b==2 --hash=sha256:2"]
    assert kept("3.11", "manylinux_2_28_aarch64") == ["b==2 --hash=sha256:2"]
    assert kept("3.12", "manylinux_2_28_x86_64") == []


def test_a_platform_takes_the_wheels_of_older_c_libraries():
    tags = collect_wheels.compatible_platforms("manylinux_2_17_x86_64")
    assert tags[:2] == ["manylinux_2_17_x86_64", "manylinux2014_x86_64"]
    assert "manylinux_2_28_x86_64" not in tags


def test_a_word_that_is_no_platform_is_refused():
    with pytest.raises(collect_wheels.CollectError, match="'cluster' is no platform tag"):
        collect_wheels.marker_environment("3.12", "cluster")


def network_cut() -> list[str]:
    """Give the prefix that runs a command without any network, where the system allows it."""
    prefix = ["unshare", "--map-root-user", "--net"]
    if shutil.which("unshare") is None:
        return []
    return [] if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode else prefix


def machine() -> str:
    return subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout.strip()


def small_lock(packages: set[str]) -> Iterator[str]:
    for requirement, hashes in collect_wheels.locked_lines(lock_path(ROOT, "run").read_text()):
        if requirement.name in packages:
            yield f"{requirement} {hashes}\n"


@pytest.mark.network
def test_collected_wheels_install_with_the_network_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With two packages published as source only, one compiled one, and one of another system."""
    python_version = "{}.{}".format(*sys.version_info)
    lock = tmp_path / "lock.txt"
    lock.write_text("".join(small_lock({"throttler", "connection-pool", "markupsafe", "pyreadline3"})))
    monkeypatch.chdir(tmp_path)
    wheels = Path("wheels")
    collect_wheels.main(lock, wheels, python_version, f"manylinux_2_28_{machine()}")
    command = collect_wheels.install_command(wheels, python_version)
    subprocess.run([*network_cut(), "sh", "-c", command], check=True)
    program = "import connection_pool, markupsafe, throttler"
    subprocess.run([".venv/bin/python", "-c", program], check=True)
    assert Path(".venv/locks/lock.txt").read_text() == lock.read_text()
