"""The errors of a config file. Each problem can be formatted as one line."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with one setting.

    `key_path` is empty if the problem concerns the whole file. `nearest` is the valid key or value that was probably
    meant.
    """

    key_path: str
    problem: str
    nearest: str = ""

    def __str__(self) -> str:
        """Return the problem as one line, which does not name the file."""
        place = f"{self.key_path}: " if self.key_path else ""
        hint = f'; did you mean "{self.nearest}"?' if self.nearest else ""
        return f"{place}{self.problem}{hint}"


class ConfigError(Exception):
    """The config file cannot be used.

    `problems` has all of its problems. As text, the error has one line with the first problem and the number of others.
    """

    def __init__(self, file: str, problems: tuple[Problem, ...]) -> None:
        more = len(problems) - 1
        suffix = f" (and {more} more problem{'s' if more > 1 else ''})" if more else ""
        super().__init__(f"{file}: {problems[0]}{suffix}")
        self.file = file
        self.problems = problems

    def lines(self) -> list[str]:
        """Return one line for each problem, which starts with the file's name."""
        return [f"{self.file}: {problem}" for problem in self.problems]
