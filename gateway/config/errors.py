"""The problems of a config file, each formatted as one line."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem: its key path (empty for the whole file), a description, and the nearest valid key or value."""

    key_path: str
    problem: str
    nearest: str = ""

    def __str__(self) -> str:
        """Return the problem as one line, without the file's name."""
        place = f"{self.key_path}: " if self.key_path else ""
        hint = f'; did you mean "{self.nearest}"?' if self.nearest else ""
        return f"{place}{self.problem}{hint}"


class ConfigError(Exception):
    """The file cannot be used. `problems` has all of its problems; `str` shows the first one in one line."""

    def __init__(self, file: str, problems: tuple[Problem, ...]) -> None:
        more = len(problems) - 1
        suffix = f" (and {more} more problem{'s' if more > 1 else ''})" if more else ""
        super().__init__(f"{file}: {problems[0]}{suffix}")
        self.file = file
        self.problems = problems

    def lines(self) -> list[str]:
        """Return each problem as a separate line."""
        return [f"{self.file}: {problem}" for problem in self.problems]
