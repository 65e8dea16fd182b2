"""Tables and plots from recordings: fresh in the book, right for made-up numbers, and possible without any."""

import copy
import random
import xml.etree.ElementTree as ET

import pytest

from tilescope.book import results
from tilescope.display import plots
from tilescope.measuring import records, sectors
from tilescope.measuring.stamp import ROOT

STAMP = dict.fromkeys(records.STAMP, "x")


def row(name, role, ms, group="large", op="add", dtype="float32", size="2^28", elements=1 << 28, **more):
    base = {"group": group, "op": op, "dtype": dtype, "size": size, "elements": elements, "bytes": 12 * elements}
    base |= {"name": name, "role": role, "args": {"n": elements, "dtype": dtype}, "status": "measured", "why": None}
    base |= {"rounds_ms": [ms, ms], "ceiling": None, "ratio": None, "call_us": None}
    records.summarise(base)
    return base | more


def recording(root, rows, gpu="NVIDIA Test", bench="elementwise"):
    for key in {records.work_key(r) for r in rows}:
        records.compare(r for r in rows if records.work_key(r) == key)
    device = {"multiprocessors": 132, "clock_mhz": 1980, "l2_bytes": 1}
    document = {"schema": 1, "bench": bench, "stamp": {**STAMP, "gpu": gpu}, "timer": {"backend": "cupti", "why": ""}}
    document |= {"device": device, "complete": True, "rows": rows}
    assert records.problems(document) == []
    records.save(document, bench, root)


def some_rows():
    absent = row("Triton", "peer", 1.0, status="not run", why="ModuleNotFoundError: No module named 'triton'")
    absent |= dict.fromkeys(("ms", "p10_ms", "p90_ms", "tb_per_s")) | {"rounds_ms": []}
    rows = [row("torch.add, out=", "ceiling", 0.8), row("add_flat", "rung", 1.0), absent]
    for size, elements, ms in (("2^29", 1 << 29, 1.6), ("2^29 + 3", (1 << 29) + 3, 1.632)):
        rows += [row("add_tail_split", "rung", ms, "ragged", size=size, elements=elements)]
    for power in (10, 12):
        rows += [row("PyTorch", "peer", 0.002, "sweep", size=f"2^{power}", elements=1 << power, call_us=6.5)]
    return rows


@pytest.mark.parametrize("bench", results.CHAPTERS)
def test_the_chapter_says_what_results_say(bench):
    readme = ROOT / results.CHAPTERS[bench] / "README.md"
    assert readme.exists() and "<!-- measured:" in readme.read_text(), f"{readme} has no place for the measurements"
    assert results.stale(bench) == []


def test_a_changed_number_is_stale(tmp_path):
    book, root = tmp_path / "book", tmp_path / "results"
    chapter = book / results.CHAPTERS["elementwise"]
    chapter.mkdir(parents=True)
    recording(root, some_rows())
    made = results.blocks("elementwise", root)
    (chapter / "README.md").write_text("\n".join(f"<!-- {name}: written by x -->\n<!-- /{name} -->" for name in made))
    assert set(results.stale("elementwise", root, book)) >= set(made) - {"tuning"}
    results.write("elementwise", root, book)
    assert results.stale("elementwise", root, book) == []
    rows = some_rows()
    rows[1] = row("add_flat", "rung", 1.1)
    recording(root, rows)
    assert set(results.stale("elementwise", root, book)) == {"bandwidth-add", "nvidia-test-add.svg"}
    (chapter / "plots" / "nvidia-gone-add.svg").write_text("<svg/>")
    assert "nvidia-gone-add.svg" in results.stale("elementwise", root, book)
    results.write("elementwise", root, book)
    assert results.stale("elementwise", root, book) == []


def test_the_tables_say_what_was_measured(tmp_path):
    recording(tmp_path, some_rows())
    made = {name: block.markdown() for name, block in results.blocks("elementwise", tmp_path).items()}
    tb = 12 * 2**28 / 1e-3 / 1e12
    assert f"| `add_flat` | rung | 0.800 ({tb:.2f} TB/s ± 0.0 %) |" in made["bandwidth-add"]
    assert "| Triton | peer | not run |" in made["bandwidth-add"]
    assert "- Triton: not run: ModuleNotFoundError: No module named 'triton'" in made["bandwidth-add"]
    assert "+2.0 %" in made["ragged-cost"] and "n = 2^29 + 3" in made["ragged-cost"]
    assert "6.5 µs, kernel 2.0 µs" in made["calls"]
    assert made["tuning"] == results.NOTHING and made["bandwidth-scale_cast"] == results.NOTHING
    assert "NVIDIA Test" in made["measured"]


def test_a_second_gpu_adds_its_tables(tmp_path):
    recording(tmp_path, some_rows())
    recording(tmp_path, some_rows(), "NVIDIA Other")
    text = results.blocks("elementwise", tmp_path)["bandwidth-add"].markdown()
    assert "NVIDIA Other:\n" in text and "NVIDIA Test:\n" in text
    assert set(results.charts("elementwise", tmp_path)) == {
        f"nvidia-{gpu}-{name}.svg" for gpu in ("test", "other") for name in ("add", "sweep")
    }


def test_without_results_there_is_something_to_say(tmp_path):
    for bench in results.CHAPTERS:
        assert {block.markdown() for block in results.blocks(bench, tmp_path).values()} == {results.NOTHING}
        assert results.charts(bench, tmp_path) == {}


def test_the_tuning_table_names_the_best_point():
    points = [row(f"add_tail_split, threads={t}", "rung", ms, "tuning") for t, ms in ((128, 1.005), (256, 1.0), (512, 1.2))]
    text = results.tuning_block({"rows": [row("copy", "ceiling", 1.0, "tuning"), *points]})
    assert "| threads=256: " in text
    assert "threads=256; threads=128 |" in text and "| threads=512: " in text


def test_the_sectors_table_counts_and_explains():
    base = dict.fromkeys(sectors.KEYS) | {
        "chapter": "02-elementwise",
        "kernel": "add_flat",
        "args": {"n": 1},
        "bytes": 10_000_000,
    }
    rows = [
        base | {"status": "equal", "registers": 12, "dram_read_bytes": 6_000_000, "dram_write_bytes": 3_000_000},
        base | {"status": "different", "why": "load_sectors: predicted 1, counted 2", "bytes": 10},
    ]
    text = results.sectors_block({"rows": rows}, "02-elementwise")
    assert "| `add_flat` | 1 of 2 | 12 | 6.0 + 3.0 of 10.0 |" in text and "predicted 1, counted 2" in text
    assert results.sectors_block({"rows": rows}, "01-activations") == ""


# -- plots --------------------------------------------------------------------------------------------------------------------
def test_the_roofline_joins_bandwidth_and_counted_instructions(tmp_path):
    recording(tmp_path, some_rows())
    counted = dict.fromkeys(sectors.KEYS) | {"kernel": "add_flat", "args": {"n": 1 << 20, "dtype": "float32"}, "bytes": 1200}
    ragged = counted | {"args": {"n": (1 << 20) - 3, "dtype": "float32"}, "warp_instructions": 999}
    document = records.load("elementwise", tmp_path)["nvidia-test"]
    (point,) = results.roof_points(document["rows"], [ragged, counted | {"warp_instructions": 60}])
    assert point.x == 0.05 and point.y == pytest.approx(0.05 * 12 * 2**28 / 1e-3)
    chart = results.roof_chart("title", [point], document)
    assert "add_flat float32" in chart and chart == results.roof_chart("title", [point], document)
    unknown = copy.deepcopy(document)
    unknown["device"]["clock_mhz"] = None
    ET.fromstring(results.roof_chart("title", [point], unknown))


def test_the_roofline_tells_forms_of_a_kernel_apart():
    counted = dict.fromkeys(sectors.KEYS) | {"kernel": "cast", "bytes": 100}
    forms = [
        counted | {"args": {"M": 2, "N": 128, "dtype": "float32", "at_once": False}, "warp_instructions": 10},
        counted | {"args": {"M": 2, "N": 128, "dtype": "float32"}, "warp_instructions": 20},
    ]
    row = {"group": "large", "role": "rung", "dtype": "float32", "status": "measured", "tb_per_s": 1.0}
    rows = [
        row | {"name": "cast", "args": {"M": 8, "N": 256, "dtype": "float32"}},
        row | {"name": "cast, one by one", "args": {"M": 8, "N": 256, "dtype": "float32", "at_once": False}},
        row | {"name": "cast, fast math", "args": {"M": 8, "N": 256, "dtype": "float32"}},
    ]
    points = results.roof_points(rows, forms)
    assert [(p.name, p.x) for p in points] == [("cast float32", 0.2), ("cast, one by one float32", 0.1)]


def test_labels_keep_clear_of_each_other_and_of_dots():
    rng = random.Random(3)
    for spread in (1, 20, 60, 200):
        places = [(rng.uniform(0, spread), rng.uniform(0, spread)) for _ in range(20)]
        labels = plots._labels(places)
        assert sorted(int(n) for _, _, text in labels for n in text.split(", ")) == list(range(1, 21))
        boxes = [plots._box(foot, 3.5 * len(text) + 1) for _, foot, text in labels]
        dots = [(a - 3, b - 3, a + 3, b + 3) for a, b in places]
        for box, others in zip(boxes, (boxes[:i] + boxes[i + 1 :] for i in range(len(boxes))), strict=True):
            assert not any(plots._overlap(box, other) for other in (*others, *dots))
    assert [text for _, _, text in plots._labels([(10, 10), (100, 10), (11, 10)])] == ["1, 3", "2"]


@pytest.mark.parametrize("name", ["add", "x" * 130])
@pytest.mark.parametrize("x, y, issue", [(2.0, 0.9e12, 1e12), (0.1, 0.02e12, None), (0.01, 0.04e12, 1e12), (0.5, 3e12, 1e12)])
def test_the_roof_stays_in_the_picture(x, y, issue, name):
    """Points left and right of the knee, above the roof, and a GPU whose clock is not known."""
    root = ET.fromstring(plots.roofline("title", [plots.Point(name, "rung", x, y)], 4e12, issue))
    (line,) = root.iter("{http://www.w3.org/2000/svg}polyline")
    corners = [tuple(map(float, corner.split(","))) for corner in line.get("points").split()]
    ends = corners[0][0], corners[-1][0]
    assert ends[0] == 70 and 70 + 399 < ends[1] < float(root.get("width")) - 7 * len(name)
    assert all(71.9 <= b <= float(root.get("height")) - 49.9 for _, b in corners)


def test_a_long_name_makes_room_for_itself():
    name = "x" * 60
    root = ET.fromstring(plots.bars("title", [("group", [plots.Bar(name, "rung", 1.0, None, None, "1")], None)], "TB/s"))
    (label,) = (e for e in root.iter("{http://www.w3.org/2000/svg}text") if e.text == name)
    assert float(label.get("x")) >= 7 * len(name)
    wide = max(float(e.get("width")) for e in root.iter("{http://www.w3.org/2000/svg}rect"))
    assert wide > 300


def test_plots_are_well_formed_transparent_and_stay_inside(tmp_path):
    recording(tmp_path, some_rows())
    for text in results.charts("elementwise", tmp_path).values():
        root = ET.fromstring(text)
        assert "prefers-color-scheme:dark" in text and "background" not in text
        width, height = float(root.get("width")), float(root.get("height"))
        for element in root.iter("{http://www.w3.org/2000/svg}rect"):
            assert 0 <= float(element.get("x")) and float(element.get("x")) + float(element.get("width")) <= width
            assert 0 <= float(element.get("y")) and float(element.get("y")) + float(element.get("height")) <= height


def test_a_bar_is_as_long_as_its_value():
    half, whole = plots.Bar("half", "rung", 2.0, 1.9, 2.1, "2"), plots.Bar("whole", "peer", 4.0, 4.0, 4.0, "4 < 5 & more")
    root = ET.fromstring(plots.bars("title", [("group", [half, whole], 4.0)], "TB/s"))
    widths = [float(r.get("width")) for r in root.iter("{http://www.w3.org/2000/svg}rect") if float(r.get("x")) >= 200]
    assert len(widths) == 2 and widths[1] == pytest.approx(2 * widths[0], abs=0.2)


@pytest.mark.parametrize("most", [0.003, 0.7, 1.0, 4.36, 9.9, 4321.0])
def test_axis_marks_reach_the_largest_value_and_are_few(most):
    ticks = plots._ticks(most)
    assert ticks[-1] >= most * (1 - 1e-9) and 3 <= len(ticks) <= 11
