"""All errors of the bench; their text is shown to the operator."""


class BenchError(Exception):
    """The base class of the bench's errors."""

    exit_code = 1


class ChildFailed(BenchError):
    """A command of the bench did not start or failed. The text contains the end of its output."""


class ResultsUnreadable(BenchError):
    """A file contains no results of this format. The text names the file and the reason."""


class NotAsExpected(BenchError):
    """The run was stopped, or some responses did not match their scenario."""


class WrongUse(BenchError):
    """The scenario, setting or combination of options does not exist."""

    exit_code = 2
