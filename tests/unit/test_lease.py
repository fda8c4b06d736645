"""One race has the GPU alone, everything else shares it, and nobody waits for ever."""

import multiprocessing
import time

from autograder.grading.lease import gpu_lease


def hold(folder, alone, name, seconds, log):
    with gpu_lease(alone=alone, folder=folder):
        log.put((name, "in", time.monotonic()))
        time.sleep(seconds)
        log.put((name, "out", time.monotonic()))


def held(folder, *orders):
    """Start holders a moment apart; when each was in and out, by name."""
    context = multiprocessing.get_context("fork")
    log, started = context.Queue(), []
    for name, alone, seconds in orders:
        process = context.Process(target=hold, args=(folder, alone, name, seconds, log))
        process.start()
        started.append(process)
        time.sleep(0.3)
    found = {}
    for _ in range(2 * len(orders)):
        name, what, at = log.get(timeout=60)
        found[name, what] = at
    for process in started:
        process.join()
    return found


def test_sharers_are_in_at_once_and_a_race_waits_for_all_of_them(tmp_path):
    at = held(tmp_path, ("a", False, 2.0), ("b", False, 2.0), ("race", True, 0.5))
    assert at["b", "in"] < at["a", "out"]
    assert at["race", "in"] >= max(at["a", "out"], at["b", "out"]) - 0.05


def test_a_newcomer_waits_behind_a_race_that_waits(tmp_path):
    at = held(tmp_path, ("a", False, 2.0), ("race", True, 0.5), ("late", False, 0.1))
    assert at["race", "in"] >= at["a", "out"] - 0.05
    assert at["late", "in"] >= at["race", "out"] - 0.05


def test_who_is_killed_gives_it_back(tmp_path):
    context = multiprocessing.get_context("fork")
    log = context.Queue()
    process = context.Process(target=hold, args=(tmp_path, True, "killed", 600, log))
    process.start()
    log.get(timeout=60)
    process.kill()
    process.join()
    with gpu_lease(alone=True, folder=tmp_path):
        pass
