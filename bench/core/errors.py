"""The errors of the bench. The operator sees their text."""


class BenchError(Exception):
    """Base class of the bench's errors."""

    exit_code = 1


class ChildFailed(BenchError):
    """A process of the bench did not start, or failed. The text contains the end of its output."""


class ResultsUnreadable(BenchError):
    """A results file is missing, unreadable or in another format. The text names the file and the reason."""


class NotAsExpected(BenchError):
    """The run was stopped, or some responses did not match their scenario."""


class WrongUse(BenchError):
    """The scenario, setting or combination of options does not exist."""

    exit_code = 2
