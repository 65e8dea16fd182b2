"""Comparing predictions with counters, without a GPU: ncu's output as ncu writes it, and every way in which it can disagree."""

import json

import pytest

from tilescope.measuring import records, sectors
from tilescope.measuring.sectors import Case

COUNTERS = list(sectors.COUNTERS)


def case_factory(n):
    raise AssertionError("not to be called")


def ncu_csv(kernels):
    """What ncu prints for [(kernel name, {metric: text})], with the program's and its own lines around it."""
    head = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size"]
    head += ["Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value"]
    lines = ["==PROF== Connected to process 123", "launched 0", "launched 2", "==PROF== Disconnected", quoted(head)]
    for index, (name, metrics) in enumerate(kernels):
        for metric, value in metrics.items():
            row = [str(index), "123", "python3", "127.0.0.1", name, "1", "7", "(256, 1, 1)", "(512, 1, 1)", "0", "9.0"]
            lines.append(quoted([*row, "Command line profiler metrics", metric, "sector", value]))
    return "\n".join(lines)


def quoted(cells):
    return ",".join(f'"{cell}"' for cell in cells)


def counts(requests=8192, sectors_=131072, **more):
    values = {name: f"{requests if 'requests' in name else sectors_:,}" for name in COUNTERS}
    others = {"launch__registers_per_thread": "26", "dram__bytes_read.sum": "8,388,608", "smsp__inst_executed.sum": "9"}
    return values | others | more


def predicted(requests=8192, sectors_=131072):
    return {key: requests if "requests" in key else sectors_ for key in sectors.COUNTERS.values()}


def test_the_csv_of_ncu_is_read():
    text = ncu_csv([("main_kernel", counts()), ("relu_f32", counts(7, **{"dram__bytes_write.sum": "n/a"}))])
    first, second = sectors.parse_ncu(text)
    assert first["kernel"] == "main_kernel" and {first[key] for key in predicted()} == {8192, 131072}
    assert first["registers"] == 26 and first["dram_read_bytes"] == 8388608 and first["warp_instructions"] == 9
    assert second["load_requests"] == 7 and "dram_write_bytes" not in second
    assert sectors.launched(text) == [0, 2]
    assert sectors.parse_ncu("==ERROR== no permission") == []


def test_a_difference_of_one_is_found():
    cases = [("02-elementwise", Case(case_factory, {"n": n}, 1)) for n in (1, 2, 3)]
    off_by_one = counts(**{COUNTERS[1]: "131073"})
    measured = sectors.parse_ncu(ncu_csv([("main_kernel", counts()), ("main_kernel", off_by_one), ("main_kernel", counts())]))
    rows = sectors.make_rows(cases, [predicted()] * 3, measured, [0, 1, 2])
    assert [row["status"] for row in rows] == ["equal", "different", "equal"]
    assert "predicted 131072, counted 131073" in rows[1]["why"]
    assert [sectors.is_fault(row) for row in rows] == [False, True, False]
    document = {"schema": 1, "stamp": dict.fromkeys(records.STAMP, "x"), "device": {}, "rows": rows}
    assert sectors.problems(document) == []
    rows[1]["status"] = "equal"
    assert sectors.problems(document)


def test_a_case_that_was_not_launched_shifts_nothing():
    cases = [("02-elementwise", Case(case_factory, {"n": n}, 1)) for n in (1, 2, 3)]
    predictions = [predicted(10), predicted(20), predicted(30)]
    measured = sectors.parse_ncu(ncu_csv([("main_kernel", counts(10)), ("main_kernel", counts(30))]))
    rows = sectors.make_rows(cases, predictions, measured, [0, 2])
    assert [row["status"] for row in rows] == ["equal", "not counted", "equal"]
    # With one kernel too few nothing can be told apart: no row may be called equal.
    rows = sectors.make_rows(cases, predictions, measured, [0, 1, 2])
    assert {row["status"] for row in rows} == {"not counted"} and all(map(sectors.is_fault, rows))


def test_what_is_not_predicted_is_no_fault_only_when_written_by_hand():
    cases = [("01-activations", Case(case_factory, {"n": n}, 1)) for n in (1, 2)]
    measured = sectors.parse_ncu(ncu_csv([("relu_f32", counts()), ("main_kernel", counts())]))
    rows = sectors.make_rows(cases, [None, "ValueError: the index depends on data"], measured, [0, 1])
    assert [row["status"] for row in rows] == ["not predicted"] * 2
    assert [sectors.is_fault(row) for row in rows] == [False, True]
    assert rows[0]["counted"]["load_requests"] == 8192


def test_every_rung_is_counted_whole_and_ragged():
    cases = sectors.load_cases()
    names = {(case.name, case.args.get("dtype"), case.args.get("n", 0) % 2048 == 0) for _, case in cases}
    for name in ("add_flat", "add_thread_vec", "add_tail_split", "relu_select", "gelu_tanh_fast", "gelu_erf_register_vec"):
        for dtype in ("float32", "float16", "bfloat16"):
            assert {(name, dtype, True), (name, dtype, False)} <= names
    assert {chapter for chapter, _ in cases} == {"01-activations", "02-elementwise"}


def test_a_prediction_sums_the_accesses():
    case = next(case for _, case in sectors.load_cases() if case.name == "add_tail_split" and case.args["n"] % 1024)
    n = case.args["n"]
    found = sectors.predict(case, "sm_90a")
    # 1023 whole tiles of 128-bit accesses, and a last tile of 1021 scalar ones in 32 requests: two loads, one store.
    tiles, rest = n // 1024, n % 1024
    requests = tiles * 1024 // (32 * 4) + -(-rest // 32)
    touched = tiles * 1024 // 8 + -(-rest // 8)
    assert found == {
        "load_requests": 2 * requests,
        "load_sectors": 2 * touched,
        "store_requests": requests,
        "store_sectors": touched,
    }


def test_the_recordings_keep_to_the_schema():
    for path in records.RESULTS.glob("*/sectors.json"):
        assert sectors.problems(json.loads(path.read_text())) == []


def test_without_a_gpu_the_command_says_that_one_is_needed(capsys):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SystemExit):
        sectors.main([])
    assert "GPU" in capsys.readouterr().err
