"""What can go wrong, sorted by what a caller can do about it.

Every error of the store is a :class:`SessionlogError`. ``retryable`` says whether the same call
may succeed later without anything being reopened or decided anew: others are in the way, the
disk is full, or no file descriptor is left. A command that failed so took no effect.
"""

from __future__ import annotations

from collections.abc import Iterable


class SessionlogError(Exception):
    """The base of all errors of this package."""

    retryable: bool

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class InvalidInput(SessionlogError, ValueError):
    """The call asks for what the store never does; the same call fails again."""


class NotFound(SessionlogError, LookupError):
    """There is no such session, backup, position or checkpoint."""


class SessionNotFound(NotFound):
    """There is no session of this key. Nothing was changed."""


class CheckpointNotFound(NotFound):
    """There is no such checkpoint to go back to. Nothing was changed."""


class Conflict(SessionlogError):
    """It exists already, or changed meanwhile. Look again, and decide anew."""


class SessionExists(Conflict):
    """A session of this key exists, and would have been overwritten. Nothing was changed."""


class VersionConflict(Conflict):
    """The session is not at the version that was expected. Nothing was changed."""


class ChangesMissed(Conflict):
    """Changes came faster than they were asked for; the next call goes on."""


class Busy(SessionlogError):
    """Others are in the way. Try again later."""


class Locked(Busy):
    """Another process, or another store in this one, writes to the directory or file."""


class StorageFull(SessionlogError):
    """The disk, its inodes or a quota is full. Try again when there is space."""


class ReadOnly(SessionlogError):
    """The store is open for reading only, or the file belongs to a store."""


class Unsupported(SessionlogError):
    """The store has no such verb."""


class Closed(SessionlogError):
    """The store was closed."""


class Poisoned(SessionlogError):
    """The store stopped writing. Close it and open it again, which recovers it."""


class Corrupt(SessionlogError):
    """Committed data is damaged."""


class Io(SessionlogError):
    """The operating system refused."""


class Unreadable(Io):
    """The files of some sessions cannot be read. All the others were given before."""

    keys: list[str]

    def __init__(
        self, message: str, keys: Iterable[str] = (), *, retryable: bool = False
    ) -> None:
        super().__init__(message, retryable=retryable)
        self.keys = list(dict.fromkeys(keys))

    @classmethod
    def of(cls, keys: Iterable[str]) -> Unreadable:
        """The error for the sessions of these keys."""
        error = cls("", keys)
        error.args = (f"the files of these sessions cannot be read: {', '.join(error.keys)}",)
        return error


class Forked(SessionlogError, RuntimeError):
    """Another process opened the store, and this one was forked from it."""
