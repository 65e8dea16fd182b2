"""The measuring itself, without a GPU: order, budget, interruption, failures, arithmetic, schema. Times are made up."""

import copy
import json
import os
import signal

import pytest
import torch
from rich.console import Console

from tilescope.measuring import bench, records, timing, verifying
from tilescope.measuring.bench import Candidate, Meter, Missing, Work, compiled_peer, new_row, peer, run_work, run_works

STAMP = dict.fromkeys(records.STAMP, "x")


def inputs():
    return (torch.arange(1.0, 65.0),)


def add_one(name="add_one", role="rung", log=None, effect=None):
    def call(x):
        if log is not None:
            log.append(name)
        if effect is not None:
            effect()
        return x + 1

    return peer(name, call, role)


def make_work(*candidates, **more):
    check = verifying.exact(lambda x: x + 1)
    return Work("large", "add_one", "float32", "64", 64, 512, inputs, check, candidates, **more)


def measure(work, **meter):
    """The rows of one work; a round takes 2 ms unless `round_ms` says otherwise."""
    meter = Meter(**{"round_ms": lambda call: 2.0, "per_call_us": lambda call: 9.0, "synchronize": lambda: None} | meter)
    rows = [new_row(work, candidate) for candidate in work.candidates]
    run_work(work, rows, meter)
    return rows


def document(rows):
    whole = {"schema": records.SCHEMA, "bench": "x", "stamp": STAMP, "timer": {}, "device": {}, "complete": True}
    return {**whole, "rows": rows}


# -- rounds -----------------------------------------------------------------------------------------------------------------
def test_candidates_take_turns_in_forward_and_reversed_order():
    log = []

    def round_ms(call):
        call()
        return 1.0

    measure(make_work(add_one("a", log=log), add_one("b", log=log), add_one("c", log=log), rounds=4), round_ms=round_ms)
    # Each is called once to be verified, right before its first round.
    assert log == list("aabbcc") + list("cba") + list("abc") + list("cba")


def test_ratio_is_bandwidth_over_the_fastest_ceiling():
    times = {"slow": 8.0, "ceiling": 2.0, "rung": 4.0}
    names = iter(["slow", "ceiling", "rung", "rung", "ceiling", "slow"])
    work = make_work(add_one("slow", "ceiling"), add_one("ceiling", "ceiling"), add_one("rung"), rounds=2)
    rows = measure(work, round_ms=lambda call: times[next(names)])
    assert [row["ratio"] for row in rows] == [0.25, 1.0, 0.5]
    assert [row["ceiling"] for row in rows] == ["ceiling"] * 3
    assert rows[2]["tb_per_s"] == 512 / 4e-3 / 1e12  # bytes over seconds, in 10^12


def test_quantiles_are_linear_between_neighbours():
    assert timing.quantile([3.0], 0.9) == 3.0
    assert timing.quantile([4.0, 1.0, 3.0, 2.0, 5.0], 0.5) == 3.0
    assert timing.quantile([1.0, 2.0], 0.1) == pytest.approx(1.1)
    assert timing.quantile([1.0, 2.0, 3.0], 0.9) == pytest.approx(2.8)
    row = {"rounds_ms": [1.0, 2.0, 3.0, 10.0], "bytes": 10**9}
    records.summarise(row)
    assert (row["ms"], row["p10_ms"], row["p90_ms"]) == pytest.approx((2.5, 1.3, 7.9)) and row["tb_per_s"] == 0.4


def test_calls_are_timed_where_asked_and_the_fastest_is_kept():
    us = iter([9.0, 7.0, 8.0])
    (row,) = measure(make_work(add_one(), calls=True, rounds=3), per_call_us=lambda call: next(us))
    assert row["call_us"] == 7.0
    (row,) = measure(make_work(add_one(), rounds=3))
    assert row["call_us"] is None


# -- what is not measured ---------------------------------------------------------------------------------------------------
def test_a_wrong_output_is_not_timed():
    timed = []
    rows = measure(make_work(peer("wrong", lambda x: x + 2), add_one()), round_ms=lambda call: timed.append(1) or 1.0)
    assert [row["status"] for row in rows] == ["wrong", "measured"] and "64 elements" in rows[0]["why"]
    assert rows[0]["ms"] is None and len(timed) == bench.ROUNDS


def test_an_output_that_is_not_written_is_found():
    """The memory of an output that was right is poisoned, so what a next kernel leaves unwritten there is not right again."""
    before = torch.ones(64)
    verifying.poison([before])
    assert not torch.isclose(before, torch.ones(64)).any()
    assert verifying.exact(lambda x: x)([torch.ones(64)], [before]) is not None


def test_a_candidate_that_raises_is_recorded_and_the_others_run():
    def fail(x):
        raise RuntimeError("no such instruction\nand a long trace")

    late = iter([1.0, 1.0, RuntimeError("late"), 1.0, 1.0])

    def round_ms(call):
        value = next(late)
        if isinstance(value, Exception):
            raise value
        return value

    rows = measure(make_work(peer("raises", fail), add_one("a"), add_one("b"), rounds=3), round_ms=round_ms)
    assert [row["status"] for row in rows] == ["failed", "measured", "failed"]
    assert rows[0]["why"] == "RuntimeError: no such instruction" and rows[2]["why"] == "RuntimeError: late"
    assert rows[2]["ms"] is None and not records.problems(document(rows))


def test_a_missing_peer_is_not_run_and_says_what_is_missing():
    def imports(x):
        import no_such_package_anywhere  # noqa: F401

    def missing(inputs):
        raise Missing("only on Tuesdays")

    rows = measure(make_work(peer("absent", imports), Candidate("missing", "peer", missing), add_one()))
    assert [row["status"] for row in rows] == ["not run", "not run", "measured"]
    assert "no_such_package_anywhere" in rows[0]["why"] and "only on Tuesdays" in rows[1]["why"]
    assert not records.problems(document(rows))


def test_torch_compile_without_triton_is_not_run(monkeypatch):
    monkeypatch.setattr(bench, "has_triton", lambda: False)
    (row,) = measure(make_work(compiled_peer(lambda x: x + 1)))
    assert row["status"] == "not run" and "Triton" in row["why"]


def test_inputs_that_do_not_fit_fail_the_work_only():
    def too_large():
        raise torch.OutOfMemoryError("CUDA out of memory")

    work = make_work(add_one())
    rows = measure(bench.replace(work, inputs=too_large))
    assert rows[0]["status"] == "failed" and "out of memory" in rows[0]["why"]


def test_the_budget_starts_nothing_new_and_names_itself():
    now = [0.0]

    def round_ms(call):
        now[0] += 10.0
        return 1.0

    rows = measure(make_work(add_one("a"), add_one("b"), add_one("c")), round_ms=round_ms, deadline=15.0, clock=lambda: now[0])
    assert [row["status"] for row in rows] == ["measured", "measured", "not run"]
    assert rows[2]["why"] == "budget" and [len(row["rounds_ms"]) for row in rows] == [1, 1, 0]
    rows = measure(make_work(add_one()), deadline=0.0, clock=lambda: 1.0)
    assert rows[0]["why"] == "budget" and not records.problems(document(rows))


def test_a_small_budget_costs_rounds_before_it_costs_works(tmp_path):
    now = [0.0]

    def round_ms(call):
        now[0] += 1.0
        return 1.0

    works = [bench.replace(make_work(add_one(), rounds=20), size=str(index)) for index in range(10)]
    saved = run_all(works, tmp_path, round_ms=round_ms, deadline=40.0, clock=lambda: now[0])
    rounds = [len(row["rounds_ms"]) for row in saved["rows"]]
    assert min(rounds) >= 2 and max(rounds) < 20 and saved["complete"]


# -- the end of a run -------------------------------------------------------------------------------------------------------
def run_all(works, tmp_path, **meter):
    meter = Meter(**{"round_ms": lambda call: 2.0, "per_call_us": lambda call: 9.0, "synchronize": lambda: None} | meter)
    doc = document([])
    doc["complete"] = False
    doc["stamp"] = {**STAMP, "gpu": "NVIDIA Test"}
    run_works(works, meter, doc, lambda: records.save(doc, "x", tmp_path), Console(quiet=True))
    return json.loads((tmp_path / "nvidia-test" / "x.json").read_text())


@pytest.fixture
def ctrl_c():
    """SIGINT as in a terminal: a job in the background is started with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_keeps_what_was_measured(tmp_path, ctrl_c):
    rounds = iter([2.0, 3.0])

    def round_ms(call):
        for value in rounds:
            return value
        os.kill(os.getpid(), signal.SIGINT)

    first = bench.replace(make_work(add_one("a"), rounds=1), size="first")
    saved = run_all([first, make_work(add_one("a"), add_one("b"), add_one("c"), rounds=2)], tmp_path, round_ms=round_ms)
    assert [row["status"] for row in saved["rows"]] == ["measured", "measured", "not run", "not run"]
    assert {row["why"] for row in saved["rows"]} == {None, "interrupted"}
    assert not saved["complete"] and not records.problems(saved)


def test_a_lost_context_ends_the_run_and_says_so(tmp_path):
    lost = []

    def synchronize():
        if lost:
            raise RuntimeError("an illegal memory access was encountered")

    def crash(x):
        lost.append(1)
        raise RuntimeError("launch failed")

    saved = run_all([make_work(add_one("a"), peer("crash", crash), add_one("b"))], tmp_path, synchronize=synchronize)
    assert [row["status"] for row in saved["rows"]] == ["measured", "failed", "not run"]
    assert "context" in saved["rows"][2]["why"] and not records.problems(saved)


def test_a_run_that_ends_is_complete_and_one_without_time_is_not(tmp_path):
    assert run_all([make_work(add_one())], tmp_path)["complete"]
    assert not run_all([make_work(add_one())], tmp_path, deadline=0.0)["complete"]


def test_results_are_written_after_each_pass(tmp_path):
    path = tmp_path / "nvidia-test" / "x.json"
    seen = []

    def round_ms(call):
        seen.append(path.exists() and [len(row["rounds_ms"]) for row in json.loads(path.read_text())["rows"]])
        return 1.0

    run_all([make_work(add_one("a"), add_one("b"), rounds=2)], tmp_path, round_ms=round_ms)
    assert seen == [False, False, [1, 1], [1, 1]]
    assert not list(path.parent.glob("*.part"))


def test_without_a_gpu_the_command_says_that_one_is_needed(capsys):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SystemExit):
        bench.bench_main("x", lambda quick: [], lambda quick: [], [])
    assert "GPU is needed" in capsys.readouterr().err


# -- the timer ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("cupti", "backend"),
    [(0.99, "cupti"), (0.0, "event"), (2.0, "event"), (RuntimeError("no CUPTI"), "event")],
)
def test_cupti_is_used_where_it_agrees_with_events(monkeypatch, cupti, backend):
    def do_bench(call, backend, **how):
        if backend == "cupti" and isinstance(cupti, Exception):
            raise cupti
        return 1.0 if backend == "event" else cupti

    monkeypatch.setattr("tilelang.profiler.do_bench", do_bench)
    assert timing.pick_backend(lambda: None)[0] == backend


def test_a_cupti_that_takes_long_is_not_used(monkeypatch):
    now = iter([0.0, 5.0])
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(now))
    monkeypatch.setattr("tilelang.profiler.do_bench", lambda call, **how: 1.0)
    assert timing.pick_backend(lambda: None)[0] == "event"


def test_do_bench_still_takes_what_it_is_given():
    import inspect

    from tilelang.profiler import do_bench

    inspect.signature(do_bench).bind(lambda: None, warmup=1.0, rep=1.0, backend="cupti", return_mode="median")


# -- verifying ----------------------------------------------------------------------------------------------------------------
def test_every_chunk_is_compared(monkeypatch):
    monkeypatch.setattr(verifying, "CHUNK", 10)
    x = torch.randn(64)
    right = x * 2
    check = verifying.exact(lambda x: x * 2)
    assert check([x], [right]) is None
    for at in (0, 9, 10, 63):
        wrong = right.clone()
        wrong[at] += 1
        assert check([x], [wrong]) is not None
    assert check([x], [right[:-1]]) and check([x], [right.double()])


def test_close_allows_rounding_and_nothing_else():
    x = torch.randn(1000).bfloat16()
    check = verifying.close(lambda x: x.double().tanh())
    right = x.double().tanh().bfloat16()
    assert check([x], [right]) is None
    for wrong in (right * 1.02, right + 0.01, torch.where(x == x[7], torch.nan, right)):
        assert check([x], [wrong.bfloat16()]) is not None
    x = torch.randn(1000)
    assert check([x], [x.double().tanh().float()]) is None
    assert check([x], [x.double().tanh().float() + 1e-4]) is not None


def test_fp8_codes_may_be_a_step_off_only_where_allowed():
    def reference(x):
        return x.to(torch.float8_e4m3fn), torch.ones(len(x), 1)

    x = torch.randn(8, 128)
    codes, scales = reference(x)
    bits = codes.view(torch.uint8).clone()
    bits[3, 5] ^= 1
    near = bits.view(torch.float8_e4m3fn)
    assert verifying.fp8_codes(reference, 0)([x], [codes, scales]) is None
    assert verifying.fp8_codes(reference, 0)([x], [near, scales]) is not None
    assert verifying.fp8_codes(reference, 1)([x], [near, scales * (1 + 2**-22)]) is None
    assert verifying.fp8_codes(reference, 1)([x], [codes, scales * 1.01]) is not None
    assert verifying.fp8_codes(reference, 1)([x], [(-x).to(torch.float8_e4m3fn), scales]) is not None


# -- the schema ---------------------------------------------------------------------------------------------------------------
def test_the_schema_finds_what_is_wrong():
    good = document(measure(make_work(add_one("ceiling", "ceiling"), add_one("rung"))))
    assert records.problems(good) == []

    def broken(change):
        bad = copy.deepcopy(good)
        change(bad)
        return records.problems(bad)

    assert broken(lambda d: d.pop("device"))
    assert broken(lambda d: d["stamp"].pop("commit"))
    assert broken(lambda d: d["stamp"].update(gpu=None))
    assert broken(lambda d: d["rows"][0].pop("why"))
    assert broken(lambda d: d["rows"][0].update(more=1))
    assert broken(lambda d: d["rows"][0].update(bytes="512"))
    assert broken(lambda d: d["rows"][0].update(status="fine"))
    assert broken(lambda d: d["rows"][0].update(status="failed", why="x"))
    assert broken(lambda d: d["rows"][1].update(tb_per_s=d["rows"][1]["tb_per_s"] * 1.001))
    assert broken(lambda d: d["rows"][1].update(ratio=1.1))
    assert broken(lambda d: d["rows"][1].update(rounds_ms=[1.0, 1.0]))
    assert broken(lambda d: d["rows"].append(copy.deepcopy(d["rows"][0])))


def test_the_recordings_keep_to_the_schema():
    for path in records.RESULTS.glob("*/*.json"):
        if path.stem not in ("sectors", "accuracy"):
            found = records.problems(json.loads(path.read_text()))
            assert not found, f"{path.name}: {found[:5]}"
