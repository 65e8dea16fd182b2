"""See the memory accesses that a TileLang kernel makes: generated CUDA, SASS, width and sectors, with no GPU."""

from .target import set_defaults

set_defaults()
