"""What is said: the codes, a Problem before it is worded, a Finding after."""

from typing import NamedTuple, Optional

CODES = {
    "TLA000": ("error", "file does not parse or decode"),
    "TLA001": ("error", "unknown name"),
    "TLA002": ("error", "name is gone"),
    "TLA003": ("error", "unknown or removed keyword"),
    "TLA004": ("error", "wrong number or kind of arguments"),
    "TLA005": ("warning", "positional argument changed its meaning"),
    "TLA006": ("warning", "deprecated"),
    "TLA007": ("error", "import or module is gone or moved"),
    "TLA008": ("error", "unknown member"),
    "TLA009": ("error", "name mangled in a class body"),
    "TLA010": ("note", "file is written for a fork"),
}
SEVERITY = {code: severity for code, (severity, _) in CODES.items()}
# What a fork explains: everything that is about the surface of upstream TileLang.
EXPLAINED_BY_FORK = frozenset(["TLA001", "TLA002", "TLA003", "TLA004", "TLA005", "TLA006", "TLA007", "TLA008"])


class Problem(NamedTuple):
    """What is wrong, before it is worded. `module` and `name` say where the surface and the use part."""

    code: str
    module: str
    name: str
    detail: object = None  # the keyword, the parameter, the Slot, the Old ...
    line: int = 0  # of the keyword, where that is the place
    col: int = 0


class Finding(NamedTuple):
    path: str
    line: int
    col: int
    code: str
    severity: str
    name: str
    message: str
    fix: Optional[str] = None
    edit: object = None  # an Edit, where --fix may write it


class Edit(NamedTuple):
    """A piece of one line that --fix may replace. Columns are bytes, as in Python's syntax tree."""

    line: int
    start: int
    end: int
    old: str
    new: str
