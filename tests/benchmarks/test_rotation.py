"""Everybody does the same work in turn."""

from benchmarks.peers.registry import ALL, FLOOR, OURS
from benchmarks.suite.rotation import scaled, turns
from benchmarks.suite.stage import has_turn
from benchmarks.suite.works import WORKS


def order(rotation: int) -> list[tuple[str, str]]:
    """The queues that drain in a rotation, in order."""
    return [(turn.peer.name, turn.variant) for turn in turns([OURS, FLOOR], ["drain"], rotation, 5, 1.0)]


def test_the_first_queue_changes_from_rotation_to_rotation() -> None:
    """The machine drifts during a run: the same queue must not always follow the slowest one."""
    first, second = order(0), order(1)

    assert [*first[1:], first[0]] == second


def test_a_close_work_has_several_laps_in_which_others_come_first() -> None:
    """The median then covers more turns, and another queue follows the slowest one in each lap."""
    peers = [OURS, ALL["saq_redis"], ALL["taskiq"]]
    entered = [(turn.lap, turn.peer.name) for turn in turns(peers, ["latency_durable"], 0, 5, 1.0)]
    laps = [[name for lap, name in entered if lap == number] for number in (1, 2, 3)]

    assert laps[0] == [laps[1][-1], *laps[1][:-1]] == [*laps[2][-2:], *laps[2][:-2]]
    assert 9 == len(entered)


def test_after_the_laps_of_all_asyncq_and_the_floor_have_more() -> None:
    """Asyncq and the floor alternate, so that both run in the same minute of the machine."""
    work = WORKS["add_1"]
    entered = [turn for turn in turns([OURS, FLOOR, ALL["taskiq"]], ["add_1"], 0, 5, 1.0) if turn.lap > work.laps]

    assert {OURS.name, FLOOR.name} == {turn.peer.name for turn in entered}
    assert work.laps_with_floor > 0
    assert 2 * work.laps_with_floor == len(entered)
    assert entered[0].peer is entered[3].peer is not entered[1].peer


def test_every_queue_is_in_the_middle_rotation_of_a_work_for_all() -> None:
    """A median of five needs five."""
    entered = {(turn.work, turn.peer.name) for turn in turns(ALL.values(), ["drain"], 2, 5, 1.0)}

    assert {("drain", name) for name in ALL} == entered


def test_every_figure_of_asyncq_is_a_median_of_five() -> None:
    """Only other slow queues have fewer turns."""
    ours = [{turn.work for turn in turns([OURS], WORKS, rotation, 5, 1.0)} for rotation in range(5)]

    assert [set(WORKS)] * 5 == ours


def test_slow_queues_have_some_turns_always_the_first() -> None:
    """A suite of half an hour has no room for five of each."""
    slow = [has_turn(ALL["oban"].turns, rotation, 5) for rotation in range(5)]

    assert [True, False, True, False, True] == slow


def test_every_queue_takes_part_in_a_single_rotation() -> None:
    """A first try must show everything."""
    assert all(has_turn(peer.turns, 0, 1) for peer in ALL.values())


def test_less_work_stays_a_multiple_of_its_chunks() -> None:
    """A chunk that is not full would be a different work."""
    assert (200, 20_000, 600) == (scaled(200, 0.2), scaled(100_000, 0.2), scaled(3_000, 0.2))


def test_a_work_that_is_compared_with_a_plain_drain_comes_just_after_one() -> None:
    """The machine may differ minutes later. The start is a larger part of a short drain."""
    seen = {turn.work: turn.plain for turn in turns([OURS], ["drain", "stuck", "ready", "serial"], 0, 5, 0.2)}

    assert {"drain": 0, "stuck": 10_000, "ready": 20_000, "serial": 0} == seen
