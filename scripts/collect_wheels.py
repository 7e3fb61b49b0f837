"""Collect the locked packages as wheels, for a machine without a network.

pip reads a lock's markers for the Python that runs pip; here the lock is read for the Python and the platform
of the other machine. A package published as source only is built, which is right on any machine as long as
the wheel is pure Python; anything else is refused by name.

Beside the wheels stand a requirements.txt with the hashes of the very files in the folder, because a wheel
built here has no hash in the lock, and copies of the locks that they fulfil, by which `make` on the other
machine knows that nothing is left to install.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename

# What a platform tag says about the machine, in the words of dependency markers.
SYSTEMS = {
    "manylinux": {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"},
    "linux": {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"},
    "macosx": {"sys_platform": "darwin", "platform_system": "Darwin", "os_name": "posix"},
    "win": {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt"},
}
# glibc 2.5, 2.12 and 2.17 have names from before the manylinux_X_Y scheme.
LEGACY_MANYLINUX = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}


class CollectError(Exception):
    """A wheel for the other machine cannot be had, or the other machine cannot be named so."""


def marker_environment(python_version: str, platform: str) -> dict[str, str]:
    """Give the values of dependency markers on a machine with this Python and this platform tag."""
    match = re.fullmatch(r"(manylinux|linux|macosx|win)(?:\d+|_\d+_\d+)?_(\w+)", platform)
    if match is None:
        raise CollectError(f"{platform!r} is no platform tag; give one such as manylinux_2_28_x86_64")
    system, machine = match.groups()
    machine = {"amd64": "AMD64"}.get(machine, machine)
    return {
        **SYSTEMS[system],
        "platform_machine": machine,
        "python_version": python_version,
        "python_full_version": f"{python_version}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }


def compatible_platforms(platform: str) -> list[str]:
    """List the tags of older C libraries whose wheels this platform takes too, newest first."""
    match = re.fullmatch(r"manylinux_2_(\d+)_(\w+)", platform)
    if match is None:
        return [platform]
    newest, machine = int(match[1]), match[2]
    tags = []
    for minor in range(newest, 4, -1):
        tags.append(f"manylinux_2_{minor}_{machine}")
        if minor in LEGACY_MANYLINUX:
            tags.append(f"{LEGACY_MANYLINUX[minor]}_{machine}")
    return [*tags, f"linux_{machine}"]


def locked_lines(lock: str) -> Iterator[tuple[Requirement, str]]:
    """Read a lock into each requirement and its hash options."""
    for line in lock.replace("\\\n", " ").splitlines():
        text = line.split(" #")[0].strip()
        if text and not text.startswith("#"):
            requirement, _, hashes = text.partition(" --hash=")
            yield Requirement(requirement), f"--hash={hashes}"


def requirements_for(lock: str, environment: dict[str, str]) -> str:
    """Keep what of a lock is installed in this marker environment, without the markers."""
    kept = []
    for requirement, hashes in locked_lines(lock):
        if requirement.marker is None or requirement.marker.evaluate(environment):
            kept.append(f"{requirement.name}{requirement.specifier} {hashes}\n")
    return "".join(kept)


def pip(*arguments: str) -> None:
    """Run this interpreter's pip."""
    command = [sys.executable, "-m", "pip", *arguments, "-qq", "--disable-pip-version-check"]
    if subprocess.run(command, check=False).returncode != 0:
        raise CollectError(f"pip {arguments[0]} failed; its message above says why")


def download(requirements: Path, folder: Path, python_version: str, platform: str) -> None:
    """Download each requirement, checked against its hashes, as a wheel where there is one."""
    tags = [f"--platform={tag}" for tag in compatible_platforms(platform)]
    target = [f"--python-version={python_version}", "--implementation=cp", *tags]
    pip("download", "--no-deps", "--require-hashes", "-r", str(requirements), "-d", str(folder), *target)


def build_sources(folder: Path) -> None:
    """Turn each source archive in the folder into a wheel of pure Python."""
    for source in [path for path in sorted(folder.iterdir()) if path.suffix in {".gz", ".zip", ".bz2"}]:
        before = set(folder.glob("*.whl"))
        # An older pip (of Debian 12) would call setup.py, which needs the package wheel beside it.
        pip("wheel", "--use-pep517", "--no-deps", "-w", str(folder), str(source))
        for wheel in set(folder.glob("*.whl")) - before:
            if not wheel.name.endswith("-none-any.whl"):
                raise CollectError(f"{source.name}: no wheel for that machine, and it has compiled parts")
        source.unlink()


def hashed_requirements(folder: Path) -> str:
    """Write the requirements that name the wheels in the folder and nothing else."""
    lines = []
    for wheel in sorted(folder.glob("*.whl")):
        name, version, _, _ = parse_wheel_filename(wheel.name)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        lines.append(f"{name}=={version} --hash=sha256:{digest}\n")
    return "".join(lines)


def copy_fulfilled_locks(lock: Path, folder: Path) -> None:
    """Copy the lock, and the default lock that every lock contains, to where scripts/environment.sh looks."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for fulfilled in {lock, lock.with_name("run.txt")}:
        if fulfilled.exists():
            shutil.copy(fulfilled, folder)


def collect(lock: Path, folder: Path, python_version: str, platform: str) -> None:
    """Fill the folder with the wheels of a lock and the requirements file that installs them."""
    environment = marker_environment(python_version, platform)
    folder.mkdir(parents=True, exist_ok=True)
    for old in [path for path in folder.iterdir() if path.suffix in {".whl", ".gz", ".zip", ".bz2"}]:
        old.unlink()
    requirements = folder / "requirements.txt"
    requirements.write_text(requirements_for(lock.read_text(), environment))
    download(requirements, folder, python_version, platform)
    build_sources(folder)
    requirements.write_text(hashed_requirements(folder))
    copy_fulfilled_locks(lock, folder / "locks")


def install_command(folder: Path, python_version: str) -> str:
    """Give the one command that makes the environment on the machine without a network."""
    return (
        f"python{python_version} -m venv .venv && .venv/bin/python -m pip install --no-index"
        f" --find-links {folder} --require-hashes -r {folder}/requirements.txt && cp -r {folder}/locks .venv/"
    )


def main(lock: Path, folder: Path, python_version: str, platform: str) -> None:
    """Collect, then say how the other machine installs what was collected."""
    collect(lock, folder, python_version, platform)
    wheels = list(folder.glob("*.whl"))
    megabytes = sum(wheel.stat().st_size for wheel in wheels) / 1e6
    print(f"{folder}: {len(wheels)} wheels, {megabytes:.0f} MB, for Python {python_version} on {platform}")
    print("Take this checkout with that folder to the other machine, and run in the checkout there:\n")
    print(f"  {install_command(folder, python_version)}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lock", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python-version", required=True, help="such as 3.12")
    parser.add_argument("--platform", required=True, help="such as manylinux_2_28_x86_64")
    try:
        main(**vars(parser.parse_args()))
    except CollectError as error:
        sys.exit(f"collect_wheels: {error}")
