"""The patience with a statement that is not answered: short with a dead connection, long with a slow server."""

from asyncq.engine.shield import Patience


def test_each_answer_that_does_not_come_doubles_the_deadline_up_to_a_limit() -> None:
    """A server that needs longer than the first deadline would otherwise never be done with anything."""
    patience = Patience(5.0, 30.0)
    deadlines = [patience.deadline_s]
    for _ in range(4):
        patience.lost()
        deadlines.append(patience.deadline_s)

    assert [5.0, 10.0, 20.0, 30.0, 30.0] == deadlines


def test_an_answer_makes_the_deadline_short_again() -> None:
    """The next dead connection is to be found as soon as the first one was."""
    patience = Patience(5.0, 30.0)
    patience.lost()
    patience.answered()

    assert 5.0 == patience.deadline_s
