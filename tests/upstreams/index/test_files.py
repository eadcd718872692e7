"""The stored index is used only if it fits the packages, and only if no other user could have written it."""

import os
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from upstreams.index import files
from upstreams.index.files import read_index, write_compiled

PROJECT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "COMPILED", tmp_path / "compiled.json")


def _refuse(problem: str = "") -> Any:
    raise AssertionError(problem or "built again")


def _build() -> dict[str, Any]:
    return {"params": [], "platforms": []}


def _stored() -> list[Path]:
    folder = files.cache_folder()
    assert folder is not None
    return sorted(folder.iterdir())


def test_second_start_reads_what_the_first_one_built() -> None:
    made = read_index(_build, _refuse)
    assert read_index(_refuse, _refuse) == made
    (file,) = _stored()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("harm", ["empty", "cut", "changed", "others write", "link", "folder open"])
def test_doubtful_file_is_ignored_and_replaced(harm: str, tmp_path: Path) -> None:
    made = read_index(_build, _refuse)
    (file,) = _stored()
    content = file.read_bytes()
    if harm in ("empty", "cut", "changed"):
        file.write_bytes({"empty": b"", "cut": content[:-9], "changed": content.replace(b"params", b"pirate")}[harm])
    elif harm == "others write":
        file.chmod(0o666)
    elif harm == "folder open":
        file.parent.chmod(0o777)
    else:
        shutil.move(file, tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
    calls: list[str] = []
    warnings: list[str] = []
    assert read_index(lambda: calls.append("built") or _build(), warnings.append) == made
    assert calls == ["built"]
    assert bool(warnings) is (harm == "folder open")
    if not warnings:
        assert read_index(_refuse, _refuse) == made


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can give a file away")
def test_file_of_another_user_is_ignored() -> None:
    read_index(_build, _refuse)
    (file,) = _stored()
    os.chown(file, 65_534, 65_534)
    calls: list[str] = []
    read_index(lambda: calls.append("built") or _build(), _refuse)
    assert calls == ["built"]
    assert _stored()[0].stat().st_uid == 0


def test_unwritable_cache_is_reported(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file instead of a folder")
    warnings: list[str] = []
    read_index(_build, warnings.append)
    assert len(warnings) == 1
    assert "so each start builds it again" in warnings[0]


def test_index_of_a_wheel_is_used_and_then_cached(tmp_path: Path) -> None:
    write_compiled(_build)
    made = read_index(_refuse, _refuse)
    (tmp_path / "compiled.json").unlink()
    assert read_index(_refuse, _refuse) == made


def test_index_of_another_version_in_a_wheel_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(files, "content_digest", lambda: "other")
        write_compiled(_build)
    calls: list[str] = []
    read_index(lambda: calls.append("built") or _build(), _refuse)
    assert calls == ["built"]


def test_concurrent_starts_all_get_the_index() -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: read_index(_build, _refuse), range(24)))
    assert all(one == found[0] for one in found)
    assert len(_stored()) == 1


def _installation(folder: Path) -> Path:
    """Copy the packages that the index is built from, and those that they import."""
    for name in ("upstreams", "storage", "limits"):
        shutil.copytree(PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "compiled.json"))
    return folder


_SUMMARY = """
import sys
from upstreams.index import load_indexed
github = next(one for one in load_indexed(print) if one.slug == "github")
print(github.endpoints[0].summary)
print("upstreams.platforms.github" in sys.modules)
"""


def _run(folder: Path, code: str, **environ: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_wheel_needs_neither_building_nor_a_cache(tmp_path: Path) -> None:
    """Goal: a start from a read-only image is fast. Method: write the index of a wheel, and allow no cache."""
    folder = _installation(tmp_path / "installation")
    nowhere = {"XDG_CACHE_HOME": "/proc/nowhere"}
    warning, summary, built = _run(folder, _SUMMARY, **nowhere)
    assert warning.startswith("cannot store the index of the platforms, so each start builds it again: ")
    assert built == "True"
    (written,) = _run(folder, "import runpy; runpy.run_module('upstreams.index', run_name='__main__')")
    assert written == str(folder / "upstreams/index/compiled.json")
    assert _run(folder, _SUMMARY, **nowhere) == [summary, "False"]


def test_wheel_contains_the_index() -> None:
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    assert "index/compiled.json" in settings["tool"]["setuptools"]["package-data"]["upstreams"]


def test_changed_package_changes_the_index(tmp_path: Path) -> None:
    """Goal: the declaration in the file counts. Method: change a summary without changing the file's size."""
    folder = _installation(tmp_path / "installation")
    first, built = _run(folder, _SUMMARY)
    assert built == "True"
    assert _run(folder, _SUMMARY) == [first, "False"]
    package = folder / "upstreams/platforms/github/__init__.py"
    times = (package.stat().st_atime_ns, package.stat().st_mtime_ns)
    content = package.read_text()
    assert content.count(f'"{first}"') == 1
    package.write_text(content.replace(f'"{first}"', f'"{first[::-1]}"'))
    os.utime(package, ns=times)
    shutil.rmtree(package.parent / "__pycache__", ignore_errors=True)
    assert _run(folder, _SUMMARY) == [first[::-1], "True"]
    assert _run(folder, _SUMMARY) == [first[::-1], "False"]
