"""The problems of a config file, one line each."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where (empty for the file as a whole), what, and the nearest valid key or value."""

    key_path: str
    problem: str
    nearest: str = ""

    def __str__(self) -> str:
        """One line without the file's name."""
        place = f"{self.key_path}: " if self.key_path else ""
        hint = f'; did you mean "{self.nearest}"?' if self.nearest else ""
        return f"{place}{self.problem}{hint}"


class ConfigError(Exception):
    """The file cannot be used: `problems` holds all that is wrong with it, `str` the first of it in one line."""

    def __init__(self, file: str, problems: tuple[Problem, ...]) -> None:
        more = len(problems) - 1
        suffix = f" (and {more} more problem{'s' if more > 1 else ''})" if more else ""
        super().__init__(f"{file}: {problems[0]}{suffix}")
        self.file = file
        self.problems = problems

    def lines(self) -> list[str]:
        """Every problem as a line of its own."""
        return [f"{self.file}: {problem}" for problem in self.problems]
