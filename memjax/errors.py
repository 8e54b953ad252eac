"""Errors that are the user's to mend: each ends a command in one line `error: ..` and exit code 2.

Anything else that escapes is a fault of this project and keeps its traceback.
"""


class UserError(Exception):
    """Something the user gave cannot be used; the message is one line that says what and what to do."""


class ConfigError(UserError):
    """A configuration that cannot work."""


class DataError(UserError):
    """A corpus that is missing, corrupt, too small or not what it claims to be."""


class CheckpointError(UserError):
    """A checkpoint that is missing, corrupt or of another model."""


class WorkdirError(UserError):
    """A working directory that cannot be used: not writable, in use, or of another run."""


class TrainingError(UserError):
    """A training that cannot go on, such as one whose loss is not finite."""


class BenchmarkError(UserError):
    """A benchmark that cannot be run: another implementation that is not there, or that fails."""
