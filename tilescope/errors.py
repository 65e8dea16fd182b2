"""What can go wrong between a user's file and a report; each message is one clear line."""


class ScopeError(Exception):
    """The user's file, factory, arguments or kernel cannot be used; the message says which and what to do."""


class LoweringError(ScopeError):
    """TileLang refused the kernel. The message is TileLang's, without its stack of C++ frames."""


class NotEmulated(ScopeError):
    """The kernel uses something that the emulator lacks, so it did not run. Never to be read as passed."""
