"""Results describe the machine and software that they were measured on."""

import platform
import subprocess
from dataclasses import replace
from pathlib import Path

from bench.core.machine import commit_of, cpu_quota, described, this_machine
from tests.bench.samples import MACHINE


def test_machine_description_includes_the_interpreter_build() -> None:
    machine = this_machine()
    assert machine.cpus >= 1
    assert machine.memory_bytes > 10**8
    assert machine.system.startswith("Linux ")
    assert machine.build.startswith(platform.python_compiler())
    assert machine.store_on
    assert set(machine.libraries) >= {"sluice", "trio", "httptools", "sqlite", "orjson", "msgspec"}


def test_cpu_quota_is_read_from_the_control_group(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path / "cpu.max") is None
    for written, cpus in (("max 100000\n", None), ("150000 100000\n", 1.5), ("", None), ("odd\n", None)):
        (tmp_path / "cpu.max").write_text(written)
        assert cpu_quota(tmp_path / "cpu.max") == cpus


def test_commit_of_notes_uncommitted_changes(tmp_path: Path) -> None:
    assert commit_of(tmp_path) == ""
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com")
    (tmp_path / "a").write_text("1")
    for words in (("init", "-q"), ("add", "a"), ("commit", "-q", "-m", "a")):
        subprocess.run([*git, *words], cwd=tmp_path, check=True, timeout=30)
    commit = commit_of(tmp_path)
    assert len(commit) == 40
    (tmp_path / "a").write_text("2")
    assert commit_of(tmp_path) == f"{commit} and changes"


def test_description_omits_fields_that_older_files_lack() -> None:
    assert described(MACHINE) == ("a CPU, 2 CPUs, 8 GB; Linux 6; CPython 3.11; trio 0.35.0; load average 0.10 before")
    newer = described(
        replace(
            MACHINE, build="GCC, with optimisation", cpu_quota=1.5, store_on="ext4", commit=f"{'a' * 40} and changes"
        )
    )
    for words in (
        "2 CPUs (at most 1.5",
        "CPython 3.11 (GCC, with",
        "store on ext4",
        f"commit {'a' * 12} and changes",
    ):
        assert words in newer
