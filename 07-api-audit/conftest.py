"""The tests import the modules beside them; the folder's name has a hyphen, so it is put on the path here."""

import sys
from pathlib import Path

HERE = str(Path(__file__).resolve().parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)
