"""What every chapter's benchmark promises, whatever it measures."""

import bench_activations
import bench_elementwise
import pytest

from tilescope.frontend.program import build

BENCHES = (bench_activations, bench_elementwise)


@pytest.mark.parametrize("bench", BENCHES)
def test_quick_is_the_same_with_other_sizes(bench):
    def shape(works):
        return {(w.group, w.op, w.dtype, tuple(c.name for c in w.candidates)) for w in works}

    quick = bench.works(quick=True)
    assert shape(quick) == shape(bench.works())
    assert max(work.elements for work in quick) < 1 << 17


@pytest.mark.parametrize("make", [make for bench in BENCHES for make in (bench.works, bench.tuning)])
def test_every_kernel_can_be_built_at_full_size(make):
    """Sizes that TileLang or a factory refuses are found here and not on the GPU."""
    for factory, args in (spec for work in make() for candidate in work.candidates for spec in candidate.specs):
        assert build(factory, **args).func is not None
