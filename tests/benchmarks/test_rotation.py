"""Everybody does the same work in turn."""

from benchmarks.peers.registry import ALL, FLOOR, OURS
from benchmarks.suite.rotation import scaled, turns
from benchmarks.suite.stage import has_turn
from benchmarks.suite.works import WORKS


def order(rotation: int) -> list[tuple[str, str]]:
    """Who drains in a rotation, in this order."""
    return [(turn.peer.name, turn.variant) for turn in turns([OURS, FLOOR], ["drain"], rotation, 5, 1.0)]


def test_who_comes_first_changes_from_rotation_to_rotation() -> None:
    """The machine drifts while they run: nobody shall always be the one after the slowest."""
    first, second = order(0), order(1)

    assert [*first[1:], first[0]] == second


def test_every_queue_is_in_the_middle_rotation_of_a_work_for_all() -> None:
    """A median of five needs five."""
    entered = {(turn.work, turn.peer.name) for turn in turns(ALL.values(), ["drain"], 2, 5, 1.0)}

    assert {("drain", name) for name in ALL} == entered


def test_long_work_is_done_in_some_rotations_always_in_the_first() -> None:
    """A suite of half an hour has no room for five of each."""
    takes = {
        name: [has_turn(WORKS[name].turns, rotation, 5) for rotation in range(5)]
        for name in ("drain", "fairness", "fleet")
    }

    assert {
        "drain": [True] * 5,
        "fairness": [True, False, True, False, True],
        "fleet": [True, False, False, False, False],
    } == takes


def test_every_work_takes_part_in_a_single_rotation() -> None:
    """A first try shows everything."""
    assert all(has_turn(work.turns, 0, 1) for work in WORKS.values())


def test_less_work_stays_a_multiple_of_its_chunks() -> None:
    """A chunk that is not full would be a different work."""
    assert (200, 20_000, 600) == (scaled(200, 0.2), scaled(100_000, 0.2), scaled(3_000, 0.2))


def test_what_is_compared_with_a_plain_drain_has_one_just_before_it() -> None:
    """Between two works of a rotation lie minutes, in which the machine may become another one."""
    seen = {turn.work: turn.plain for turn in turns([OURS], ["drain", "stuck", "ready", "serial"], 0, 5, 0.2)}

    assert {"drain": 0, "stuck": 20_000, "ready": 20_000, "serial": 0} == seen
