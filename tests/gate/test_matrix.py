"""A run checks a sixth of each matrix, and everything of the platforms that a change touches."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import PROCESSES
from tests.gate import matrix, whole
from tests.gate.changed import LATEST, changed_files, platforms_of
from tests.gate.matrix import EVERYTHING, SHARE, WHOLE, by_platform, of_run, sample, sample_platforms

ITEMS = [(slug, number) for slug, size in (("large", 120), ("medium", 12), ("small", 2)) for number in range(size)]
Item = tuple[str, int]


def slug_of(item: Item) -> str:
    return item[0]


@pytest.fixture(autouse=True)
def part_of_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose the part of a certain commit, which touches no platform."""
    monkeypatch.delenv(WHOLE, raising=False)
    monkeypatch.setattr(matrix, "seed", lambda: "a commit")
    monkeypatch.setattr(matrix, "changed_platforms", frozenset)


def test_sample_takes_a_sixth_of_each_group_and_the_whole_matrix_takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [(name, number) for name, size in (("large", 60), ("small", 4)) for number in range(size)]
    part = sample(items, group=lambda item: item[0])
    assert part == sample(items, group=lambda item: item[0]), "all processes of a run choose the same part"
    assert [item for item in items if item in part] == list(part)
    assert [sum(name == each for name, _ in part) for each in ("large", "small")] == [10, 1]
    monkeypatch.setenv(WHOLE, "1")
    assert sample(items) == tuple(items)


def test_platforms_share_a_sixth_in_order() -> None:
    part = sample_platforms(ITEMS, slug_of)
    assert part == sample_platforms(iter(ITEMS), slug_of), "all processes of a run choose the same part"
    assert [item for item in ITEMS if item in part] == list(part)
    assert abs(len(part) - len(ITEMS) / SHARE) <= 2
    found = Counter(map(slug_of, part))
    assert abs(found["large"] - 20) <= 2
    assert found["medium"] >= 1, "a platform with many items is never left out"
    assert sample_platforms(ITEMS[:1], slug_of) == tuple(ITEMS[:1])
    assert sample_platforms([], slug_of) == ()


def test_every_item_is_chosen_by_some_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = Counter[Item]()
    for number in range(300):
        monkeypatch.setattr(matrix, "seed", lambda number=number: f"commit {number}")
        chosen.update(sample_platforms(ITEMS, slug_of))
    assert all(300 / SHARE / 3 < chosen[item] < 300 / SHARE * 3 for item in ITEMS)


def test_changed_platforms_are_checked_completely(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = sample_platforms(ITEMS, slug_of)
    monkeypatch.setattr(matrix, "changed_platforms", lambda: frozenset({"medium"}))
    part = sample_platforms(ITEMS, slug_of)
    assert by_platform(ITEMS, slug_of)["medium"] == tuple(item for item in ITEMS if slug_of(item) == "medium")
    assert [item for item in part if slug_of(item) != "medium"] == [one for one in usual if slug_of(one) != "medium"]


def test_whole_matrix_has_everything_or_the_named_platforms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WHOLE, EVERYTHING)
    assert sample_platforms(ITEMS, slug_of) == of_run(ITEMS, slug_of) == tuple(ITEMS)
    monkeypatch.setenv(WHOLE, "medium,small")
    assert sample_platforms(ITEMS, slug_of) == of_run(ITEMS, slug_of) == tuple(ITEMS[120:])
    assert list(by_platform(ITEMS, slug_of)) == ["medium", "small"]


FILES = {
    "upstreams/platforms/mastodon/reads.py": {"mastodon"},
    "upstreams/composites/prism/insight/org.py": {"prism"},
    "upstreams/web/reading/walls.py": {"web"},
    "upstreams/sandbox/made/app_store.json": {"app_store"},
    "upstreams/sandbox/github/graphql.py": {"github"},
    "tests/platforms/lemmy/cases.py": {"lemmy"},
    "upstreams/platforms/__init__.py": set(),
    "upstreams/composites/derived.py": set(),
    "upstreams/sandbox/made.py": set(),
    "tests/platforms/case.py": set(),
    "docs/platforms/mastodon.md": set(),
}


@pytest.mark.parametrize("file", FILES)
def test_file_belongs_to_its_platform(file: str) -> None:
    assert platforms_of([file]) == FILES[file]


Git = Callable[..., None]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Runs git commands in a new repository without remotes, whose branch `main` has one commit."""

    def run(*words: str) -> None:
        identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    run("init", "--initial-branch=main")
    add(tmp_path, run, "first")
    return run


def add(folder: Path, git: Git, name: str) -> None:
    """Commit a new file."""
    (folder / name).write_text(name)
    git("add", name)
    git("commit", "-m", name)


def test_change_of_a_branch_begins_where_it_left_main(tmp_path: Path, git: Git) -> None:
    git("checkout", "-b", "topic")
    for number in range(2 * LATEST):
        add(tmp_path, git, f"of-topic-{number}")
    git("checkout", "main")
    add(tmp_path, git, "of-main")
    git("checkout", "topic")
    (tmp_path / "first").write_text("not committed")
    (tmp_path / "new").write_text("not added")
    expected = {"first", "new", *(f"of-topic-{number}" for number in range(2 * LATEST))}
    assert changed_files(tmp_path) == expected


def test_remote_branch_comes_before_the_local_one(tmp_path: Path, git: Git) -> None:
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    for number in range(2 * LATEST):
        add(tmp_path, git, f"unpublished-{number}")
    assert changed_files(tmp_path) == {f"unpublished-{number}" for number in range(2 * LATEST)}


def test_change_on_main_is_the_latest_commits(tmp_path: Path, git: Git) -> None:
    for number in range(2 * LATEST):
        add(tmp_path, git, f"file-{number}")
    assert changed_files(tmp_path) == {f"file-{number}" for number in range(LATEST, 2 * LATEST)}
    git("branch", "--move", "main", "trunk")
    assert changed_files(tmp_path) == {f"file-{number}" for number in range(LATEST, 2 * LATEST)}, "no main branch"


def test_merge_counts_as_one_commit(tmp_path: Path, git: Git) -> None:
    git("checkout", "-b", "topic")
    for number in range(2 * LATEST):
        add(tmp_path, git, f"merged-{number}")
    git("checkout", "main")
    git("merge", "--no-ff", "topic")
    assert changed_files(tmp_path) == {f"merged-{number}" for number in range(2 * LATEST)}


def test_removed_and_moved_files_are_changes_and_others_are_not_seen(tmp_path: Path, git: Git) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / ".gitignore").write_text("ignored\n")
    (tmp_path / "below" / "ignored").write_text("")
    git("mv", "first", "below/second")
    assert changed_files(tmp_path) == {"first", "below/second", ".gitignore"}
    assert changed_files(tmp_path / "below") == {"second"}


def test_folder_outside_a_repository_has_no_change(tmp_path: Path) -> None:
    assert changed_files(tmp_path) == frozenset()


@pytest.mark.parametrize("test", whole.MATRICES)
def test_matrix_exists(test: str) -> None:
    path, _, name = test.partition("::")
    assert f"def {name}(" in (whole.PROJECT / path).read_text() if name else (whole.PROJECT / path).is_file()


def test_whole_matrix_of_platforms_includes_their_own_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    assert whole.tests_of(["mastodon", "prism"]) == ("tests/platforms/mastodon", *whole.MATRICES)
    ran: list[tuple[list[str], str]] = []

    def run(command: list[str], *, env: dict[str, str], **_more: object) -> subprocess.CompletedProcess[str]:
        ran.append((command[3:5], env[WHOLE]))
        return subprocess.CompletedProcess(command, 7)

    monkeypatch.setattr(subprocess, "run", run)
    assert [whole.main(["mastodon", "lemmy"]), whole.main([])] == [7, 7]
    assert ran == [(["-n", "0"], "mastodon,lemmy"), (["-n", str(PROCESSES)], EVERYTHING)]


def test_unknown_platform_is_refused_with_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert whole.main(["mastodn"]) == 2
    assert capsys.readouterr().err == "There is no platform `mastodn`. Did you mean `mastodon`?\n"
    assert whole.main(["zzz"]) == 2
    assert capsys.readouterr().err == "There is no platform `zzz`.\n"
