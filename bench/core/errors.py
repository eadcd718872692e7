"""Everything that the bench refuses or fails with; the text is what the operator reads."""


class BenchError(Exception):
    """The base."""

    exit_code = 1


class ChildFailed(BenchError):
    """A command of the bench did not start or did not succeed; the text holds the end of what it wrote."""


class ResultsUnreadable(BenchError):
    """A file holds no results of this format; the text says which and why."""


class NotAsExpected(BenchError):
    """The run was stopped, or some answers were not as their scenario says."""


class WrongUse(BenchError):
    """There is no such scenario, setting or combination of options."""

    exit_code = 2
