"""`_singleton_key`: the key of a type, or of a type and a subject; as in asyncq/domain/deduplication.py."""

import hashlib

from tests.support.session import Session

KEY = "select encode(asyncq._singleton_key($1, $2), 'hex')"


def sha256(text: str) -> str:
    """The digest of a canonical text."""
    return hashlib.sha256(text.encode()).hexdigest()


async def test_without_a_subject_it_is_the_key_of_the_default_policy(sql: Session) -> None:
    """An add with such a policy can then replace the waiting singleton."""
    policy = "select encode(asyncq._unique_key(asyncq._check_policy('{}'), 't', null, null, null), 'hex')"

    assert sha256('{"type":"t"}') == await sql.value(KEY, "t", None) == await sql.value(policy)


async def test_each_subject_has_a_key_of_its_own(sql: Session) -> None:
    """Quotes in a subject cannot make it look like another one."""
    pairs = [
        ("t", None),
        ("t", "a"),
        ("t", "b"),
        ("u", "a"),
        ("t", ""),
        ("t", "A"),
        ("t", 'a","type":"t'),
        ("t", "null"),
    ]
    keys = [await sql.value(KEY, *pair) for pair in pairs]

    assert len(pairs) == len(set(keys))
    assert sha256('{"subject":"a","type":"t"}') == keys[1]


async def test_texts_that_look_the_same_have_one_key(sql: Session) -> None:
    """They are normalized to NFC, as in a unique policy."""
    composed, decomposed = [await sql.value(KEY, text, text) for text in ("caf\u00e9", "cafe\u0301")]

    assert sha256('{"subject":"caf\u00e9","type":"caf\u00e9"}') == composed == decomposed
