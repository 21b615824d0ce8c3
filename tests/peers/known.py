#!/usr/bin/env python3
"""The driver of benches/peers with input whose results are known; nothing is timed.

    tests/peers/known.py        run by tests/peers.rs
"""
import json
import os
import sys
import tempfile
import unittest
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "benches", "peers"))
import dropin  # noqa: E402
import libraries  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402

SMALL, LARGE = (2, "all_reduce", 8), (2, "all_reduce", 64 << 10)
FAST, SLOW = ("openmpi4", "default"), ("intel", "shm")


class Words(unittest.TestCase):
    def test_sizes_are_read_and_written(self):
        for word, bytes_, name in (("8", 8, "8 B"), ("64K", 65536, "64 KiB"),
                                   ("1m", 1 << 20, "1 MiB"), ("2G", 2 << 30, "2 GiB"),
                                   ("1536", 1536, "1536 B")):
            self.assertEqual(report.size_of(word), bytes_)
            self.assertEqual(report.size_name(bytes_), name)

    def test_only_whole_results_are_read(self):
        output = ("WARNING: result of nothing\nresult all_reduce 8 4096 0.1 0.25 0.2\n"
                  "result broadcast 8 40\nresult barrier 8 9 1 2 3 and more\n")
        self.assertEqual(report.parsed(output), {("all_reduce", 8): (0.1, 0.25, 0.2)})


class Choices(unittest.TestCase):
    def test_the_fastest_is_chosen(self):
        trial = {FAST: {SMALL: 1.0, LARGE: 20.0}, SLOW: {SMALL: 1.2, LARGE: 10.0}}
        self.assertEqual(report.chosen(trial), {SMALL: FAST, LARGE: SLOW})

    def test_one_that_is_nearly_as_fast_is_enough(self):
        trial = {FAST: {SMALL: 1.0}, SLOW: {SMALL: 1.02, LARGE: 10.0}}
        self.assertEqual(report.chosen(trial), {SMALL: SLOW, LARGE: SLOW})

    def test_a_variant_without_a_result_is_not_chosen(self):
        self.assertEqual(report.chosen({FAST: {}, SLOW: {SMALL: 3.0}}), {SMALL: SLOW})


def turns():
    """Three turns on a machine that is twice as slow in the second."""
    return [{(FAST, SMALL): peer, ("private", SMALL): private, ("mapped", SMALL): mapped,
             (FAST, LARGE): 30.0, ("private", LARGE): 10.0}
            for peer, private, mapped in ((1.0, 0.5, 2.0), (2.4, 1.0, 4.0), (1.5, 0.5, 1.2))]


class DropIn(unittest.TestCase):
    FIRST = {("broadcast", 8): [0.9, 0.94, 1.2], ("broadcast", 1024): [1.0, 2.0, 2.0],
             ("gather_v", 8): [0.7, 0.5, 0.6]}

    def test_a_cell_is_lost_where_it_loses_twice(self):
        again = {("broadcast", 8): [0.96, 0.96, 0.1], ("gather_v", 8): [0.7]}
        self.assertEqual(dropin.losing(self.FIRST, 0.95), {("broadcast", 8), ("gather_v", 8)})
        self.assertEqual(dropin.lost(self.FIRST, again, 0.95), {("gather_v", 8)})
        self.assertEqual((dropin.bound(2, 2), dropin.bound(4, 2)), (0.95, 0.8))

    def test_means_and_losses_are_told(self):
        lines = dropin.table("Some MPI", 2, self.FIRST, {("gather_v", 8): [0.7]},
                             {("gather_v", 8)})
        self.assertEqual(len({line.count("|") for line in lines}), 1)
        self.assertIn("| Some MPI | 2 | gather_v | 8 B | 0.60 [0.50, 0.70] | "
                      "0.70 [0.70, 0.70] | lost |", lines)
        # Of 0.94 and 2.
        self.assertIn("| Some MPI | 2 | broadcast | mean | 1.37 | | |", lines)

    def test_only_the_ranks_load_the_library(self):
        library = libraries.LIBRARIES[0]

        class Plan:
            def run(self, variant, ranks, points):
                return {"argv": ["mpirun", "-n", "2", library.program(), "{board}"]}

        class Told:
            kolo, table = "/opt/kolo", "none"
        plain, with_it = [dropin.run_of(Plan(), Told, library, side, 2, {})["argv"]
                          for side in (dropin.PLAIN, dropin.DROPIN)]
        self.assertNotIn("env", plain)
        at = with_it.index("LD_PRELOAD=/opt/kolo/lib/libkolo_pmpi.so.0")
        self.assertTrue(3 < at < with_it.index(library.program()))
        self.assertIn("KOLO_PMPI_TABLE=none", with_it)


class Tables(unittest.TestCase):
    def setUp(self):
        self.rows = report.rows_of(turns(), {LARGE: FAST, SMALL: FAST})

    def test_ratios_are_taken_within_a_turn(self):
        ratio = self.rows[0].ratios["private"]
        # Of the medians it would be 3.
        self.assertEqual((ratio.least, ratio.median, ratio.most), (2.0, 2.4, 3.0))
        self.assertEqual(self.rows[0].times[FAST].median, 1.5)

    def test_rows_are_in_order_and_losses_are_named(self):
        self.assertEqual([row.point for row in self.rows], [SMALL, LARGE])
        lines = report.table(self.rows)
        self.assertEqual(len({line.count("|") for line in lines}), 1)
        self.assertIn("2.40 [2.00, 3.00]", lines[2])
        self.assertTrue(lines[2].endswith("| mapped |"), lines[2])
        self.assertTrue(lines[3].endswith("|  |"), lines[3])

    def test_the_picture_has_every_ratio(self):
        svg = xml.etree.ElementTree.fromstring(report.picture(self.rows, "a < b"))
        circles = svg.findall(".//{http://www.w3.org/2000/svg}circle")
        # Three in the legend; two of the small size, one of the large.
        self.assertEqual(len(circles), 6)
        heights = [float(c.get("cy")) for c in circles[3:]]
        # 2.4, then 3, then 0.6 of the mapped buffers: higher ratios are further up.
        self.assertLess(heights[1], heights[0])
        self.assertLess(heights[0], heights[2])


def run(code, expected=0.1):
    return {"argv": [sys.executable, "-c", code, "{board}"], "env": dict(os.environ),
            "expected": expected, "state": ""}


class Batches(unittest.TestCase):
    def test_runs_that_do_not_fit_are_left_to_the_next_batch(self):
        code = "import sys; print(sys.argv[1])"
        results = peers.performed([run(code, peers.BATCH + 1) for _ in range(3)], [])
        self.assertEqual([r["code"] for r in results], [0, 0, 0])
        # Each batch is a process of its own, and the name of its board tells.
        self.assertEqual(len({r["out"] for r in results}), 3)

    def test_runs_that_fit_share_a_batch_and_a_failure_is_kept(self):
        results = peers.performed([run("import sys; print(sys.argv[1])"),
                                   run("import sys; sys.exit('no such memory')")], ["env"])
        self.assertEqual([r["code"] for r in results], [0, 1])
        self.assertIn("no such memory", results[1]["err"])
        self.assertTrue(results[0]["out"].startswith("/dev/shm/peers-"))

    def test_a_run_that_hangs_is_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "batch")
            with open(path, "w") as file:
                json.dump([run("import time; time.sleep(600)")], file)
            limit, peers.LIMIT = peers.LIMIT, 0.5
            try:
                peers.run_batch(path)
            finally:
                peers.LIMIT = limit
            with open(path + ".out") as file:
                self.assertIn("ended after", json.load(file)[0]["err"])

    def test_a_run_beside_other_programs_is_spoiled(self):
        kept, peers.used_by_all = peers.used_by_all, lambda: 0.0
        try:
            self.assertEqual(peers.one_run(run("pass"))["spoiled"], "")
            later = iter((0.0, 50.0))
            peers.used_by_all = lambda: next(later)
            self.assertIn("other programs", peers.one_run(run("pass"))["spoiled"])
        finally:
            peers.used_by_all = kept

    def test_what_failed_is_tried_once_more(self):
        with tempfile.TemporaryDirectory() as folder:
            mark = os.path.join(folder, "mark")
            code = "import os, sys; sys.exit(os.path.exists(%r) or open(%r, 'w').close())"
            runs = [run("print('fine')"), run(code % (mark + "a", mark + "b")), run("sys")]
            first = [{"code": 0, "spoiled": ""}, {"code": 1, "spoiled": ""},
                     {"code": 0, "spoiled": "so"}]
            results = peers.twice_if_failed(runs, first, [])
            self.assertEqual([r["code"] for r in results], [0, 0, 1])
            self.assertTrue(os.path.exists(mark + "b"))

    def test_wrong_results_end_everything(self):
        result = {"code": 1, "out": "", "err": "wrong: rank 1 of 2\n", "seconds": 1, "spoiled": ""}
        with self.assertRaises(SystemExit):
            peers.times_of(result, 2, "of this test")


class States(unittest.TestCase):
    def setUp(self):
        self.kept = peers.state, peers.PATIENCE, peers.FOREIGN
        peers.FOREIGN = float("inf")
        peers.PATIENCE = 0
        peers.state = lambda: self.states.pop(0)

    def tearDown(self):
        peers.state, peers.PATIENCE, peers.FOREIGN = self.kept

    def result(self, *states):
        self.states = list(states)
        wanted = {**run("print('result barrier 8 5 1 2 3')"), "state": "together"}
        return peers.in_state(wanted, float("inf"))

    def test_a_run_during_which_cores_moved_is_repeated(self):
        result = self.result("together", "apart", "together", "together", "not asked")
        self.assertEqual(self.states, ["not asked"])
        self.assertEqual(peers.times_of(result, 2, "x"), {(2, "barrier", 8): 2.0})
        self.assertEqual(peers.times_of(result, 2, "x", 0), {(2, "barrier", 8): 1.0})

    def test_one_that_never_succeeds_does_not_count(self):
        result = self.result(*["together", "apart"] * peers.REPEATS)
        self.assertEqual(self.states, [])
        self.assertEqual(peers.times_of(result, 2, "x"), {})


class Commands(unittest.TestCase):
    def test_each_configuration_is_started_alike(self):
        for library in (*libraries.LIBRARIES, libraries.kolo("/nowhere")):
            self.assertEqual(len({c.name for c in library.configurations}),
                             len(library.configurations))
            for cores, word in ((2, "pinned"), (1, "free")):
                for one in library.configurations:
                    argv, env = library.command(2, one, cores, "private", 60, 5,
                                                {"reduce": [8, 64], "barrier": [8]})
                    at = argv.index("{board}")
                    self.assertEqual(argv[at:], ["{board}", "private", word, "60", "5", "reduce",
                                                 "8", "64", "barrier", "8"])
                    self.assertEqual({**env, **one.env}, env)

    def test_what_the_caller_told_an_mpi_is_not_passed_on(self):
        os.environ["OMPI_MCA_pml"] = "nonsense"
        try:
            env = libraries.LIBRARIES[0].environment()
        finally:
            del os.environ["OMPI_MCA_pml"]
        self.assertNotIn("OMPI_MCA_pml", env)
        self.assertIn("OMPI_ALLOW_RUN_AS_ROOT", env)


if __name__ == "__main__":
    unittest.main()
