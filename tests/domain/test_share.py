"""A worker's choice of queues and limits: which options are valid together."""

from typing import Any

import msgspec
import pytest

from asyncq.domain.errors import ConfigurationError
from asyncq.domain.share import Choice, Portion, Share, choice_of, portions_of, rooms


@pytest.mark.parametrize(
    ("queues", "exclude", "expected"),
    [
        (None, None, Choice()),
        ([], None, Choice(())),
        (["mail"], ["imports"], Choice((Share("mail"),), ("imports",))),
        (
            ["mail", Share("reports", at_once=10, weight=0.01)],
            (),
            Choice((Share("mail"), Share("reports", at_once=10, weight=0.01))),
        ),
    ],
    ids=str,
)
def test_the_options_of_a_worker_become_a_choice(queues: Any, exclude: Any, expected: Choice) -> None:
    """A name is a share without limits. A share may be the whole worker."""
    assert expected == choice_of(queues, exclude, concurrency=10)


@pytest.mark.parametrize(
    ("queues", "exclude", "said"),
    [
        (["a", "b"], ["b"], "queues and exclude both have 'b': leave it out of one of them"),
        ([Share("b")], ["b"], "queues and exclude both have 'b'"),
        ([Share("a", at_once=11)], [], "the share of 'a' is 11 jobs at once, but the worker has a concurrency of 10"),
        (["a", Share("a")], [], "queues has 'a' twice"),
        ("mail", [], "queues must be a list of names or Shares, got 'mail'"),
        (Share("mail"), [], "queues must be a list of names or Shares, got Share"),
        (None, "mail", "exclude must be a list of names, got 'mail'"),
        (["a", 5], [], "the name of a Share must be a str, got 5"),
        ([], [""], "a name in exclude must have 1 to 128 characters, got 0"),
    ],
    ids=str,
)
def test_options_that_contradict_each_other_are_refused(queues: Any, exclude: Any, said: str) -> None:
    """They are refused when the worker is made."""
    with pytest.raises(ConfigurationError, match=said):
        choice_of(queues, exclude, concurrency=10)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"at_once": 0}, "at_once of a Share must be a whole number from 1 to 32767, got 0"),
        ({"at_once": 32_768}, "at_once of a Share must be a whole number from 1 to 32767, got 32768"),
        ({"weight": 0.009}, "weight of a Share must be a number from 0.01 to 100, got 0.009"),
        ({"weight": 100.5}, "weight of a Share must be a number from 0.01 to 100, got 100.5"),
        ({"weight": float("nan")}, "weight of a Share must be a number from 0.01 to 100, got nan"),
        ({"weight": True}, "weight of a Share must be a number from 0.01 to 100, got True"),
        ({"weight": "2"}, "weight of a Share must be a number from 0.01 to 100, got '2'"),
    ],
    ids=str,
)
def test_a_value_that_no_share_can_have_is_refused(options: dict[str, Any], said: str) -> None:
    """It is refused where it is written."""
    with pytest.raises(ConfigurationError, match=said):
        Share("mail", **options)


@pytest.mark.parametrize("name", ["", "x" * 129, "a\0"], ids=ascii)
def test_a_share_has_the_name_of_a_queue_or_a_limit(name: str) -> None:
    """No queue has another name."""
    with pytest.raises(ConfigurationError, match="the name of a Share"):
        Share(name)


LIMITS = {1: "tenants", 2: "api", 3: None}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (Choice(), [None]),
        (Choice(None, ("mail",)), [{"but": ["mail"], "queues": [], "whole": [1, 2, 3], "free": []}]),
        (
            Choice((Share("mail"), Share("api")), ("imports",)),
            [{"but": ["imports"], "queues": ["mail", "api"], "whole": [2], "free": [3]}],
        ),
        (Choice(()), [{"but": [], "queues": [], "whole": [], "free": [3]}]),
        (
            Choice((Share("mail", at_once=2), Share("api")), ("imports",)),
            [
                {"but": ["imports"], "queues": [], "whole": [], "free": [3]},
                {"but": ["imports", "api"], "queues": ["mail"], "whole": [], "free": []},
                {"but": ["imports", "mail"], "queues": ["api"], "whole": [2], "free": []},
            ],
        ),
    ],
    ids=["all", "but one", "two", "none", "shares"],
)
def test_a_choice_becomes_portions(choice: Choice, expected: list[dict[str, Any] | None]) -> None:
    """Each is fetched by itself, so shares without bounds are one."""
    found = [portion.which for portion in portions_of(choice, LIMITS)]

    assert expected == [None if which is None else msgspec.json.decode(which) for which in found]


@pytest.mark.parametrize(
    ("wanted", "shares", "taken", "expected"),
    [
        (10, [Share("a"), Share("b")], [0, 0], [5, 5]),
        (8, [Share("a", weight=3), Share("b")], [0, 0], [6, 2]),
        (4, [Share("a", weight=3), Share("b")], [3, 0], [3, 1]),
        (1, [Share("a", weight=3), Share("b")], [3, 1], [1, 0]),
        (1, [Share("a", weight=3), Share("b")], [7, 1], [0, 1]),
        (10, [Share("a", at_once=2), Share("b")], [1, 0], [1, 9]),
        (10, [Share("a", at_once=2), Share("b", at_once=3)], [2, 3], [0, 0]),
        (2, [Share("a", weight=100), Share("b", weight=0.01)], [50, 0], [1, 1]),
    ],
    ids=str,
)
def test_slots_are_divided_by_weights(wanted: int, shares: list[Share], taken: list[int], expected: list[int]) -> None:
    """Over all slots of the worker: most fetches are for one slot. Each share gets one at least."""
    assert expected == rooms(wanted, [Portion(share=share) for share in shares], taken)
