"""`_resolve_job_keys`: many adds in one call, some of whose keys exist; each has its own mode."""

from tests.support.keyed import MODES, STATES, Done, Spec, add_all, add_one, hold, names, stored
from tests.support.session import Session


async def hold_one_in_each_state(sql: Session) -> dict[str, int]:
    """Store a job in each state, whose key is the state. Returns state -> id."""
    held = {}
    for state in STATES:
        held[state] = (await hold(sql, state, "[1]", key=state))["id"]
    return held


async def test_a_call_mixes_all_cases_and_answers_in_the_order_of_its_specs(sql: Session) -> None:
    """Every state, with every mode, keys that are new, and no keys, in turn: each as if it were alone."""
    for mode in MODES:
        held = await hold_one_in_each_state(sql)
        specs = [
            Spec(key=None),
            *(Spec(key=state, mode=mode) for state in STATES),
            Spec(key=mode, mode=mode),
            Spec(key=None),
        ]
        done = await add_all(sql, specs)
        new = iter(sorted({one.id for one in done} - set(held.values())))
        alone = [Done("added", next(new))]
        for state, id_ in held.items():
            if mode == "unsafe_dedupe":
                alone.append(Done("deduplicated", id_, id_, state))
            elif state in ("active", "discarded"):
                alone.append(Done("added", next(new), id_, state))
            else:
                alone.append(Done("updated", id_, id_, state))

        assert [*alone, Done("added", next(new)), Done("added", next(new))] == done
        await sql.execute("truncate asyncq._jobs")


async def test_each_spec_has_a_mode_of_its_own(sql: Session) -> None:
    """Python's add_jobs knows them; graphile-worker has one for the whole call, and none for unsafe_dedupe."""
    for key in ("a", "b", "c", "d"):
        await add_one(sql, key=key, payload="[1]", run_at="2040-01-01 00:00:00+00")
    modes = zip(("a", "b", "c", "d"), ("replace", "preserve_run_at", "unsafe_dedupe", None), strict=True)
    done = await add_all(
        sql, [Spec(key=key, payload="[2]", run_at="2041-01-01 00:00:00+00", mode=mode) for key, mode in modes]
    )
    rows = (await stored(sql)).values()

    assert ["updated", "updated", "deduplicated", "updated"] == [one.outcome for one in done]
    assert ["[1, 2]", "[1, 2]", "[1]", "[1, 2]"] == [row["payload"] for row in rows]
    assert [2041, 2040, 2040, 2041] == [row["run_at"].year for row in rows]


async def test_every_field_ends_in_its_own_job(sql: Session) -> None:
    """A hundred jobs that differ in all of them; jobs and their ids could be joined wrongly."""
    specs = [
        Spec(
            f"t{i % 7}", f'{{"i": {i}}}', f"q{i % 5}" if i % 3 else None, f"2040-01-01 00:00:{i % 60:02}+00", i + 1,
            f"k{i}", i, f'{{"f{i}": true}}', "replace", f'{{"m": {i}}}')
        for i in range(100)
    ]  # fmt: skip
    first = await add_all(sql, [Spec(key=f"k{i}") for i in range(0, 100, 2)])
    done = await add_all(sql, specs)
    rows = await stored(sql)
    seen = [
        Spec(row["task"], row["payload"], row["queue"], f"{row['run_at']:%Y-%m-%d %H:%M:%S+00}", row["max_attempts"],
            row["key"],
            row["priority"], row["flags"], "replace", row["meta"])
        for row in (rows[one.id] for one in done)
    ]  # fmt: skip

    assert specs == seen
    assert ["updated", "added"] * 50 == [one.outcome for one in done]
    assert [one.id for one in first] == [one.id for one in done[::2]]


async def test_new_jobs_of_a_mixed_call_have_ids_in_the_order_of_the_specs(sql: Session) -> None:
    """Equal jobs run by id."""
    await add_one(sql, key="held")
    await hold(sql, "active")
    done = await add_all(sql, [Spec(key=None), Spec(key="held"), Spec(key="b"), Spec(), Spec(key=None), Spec(key="a")])
    ids = [one.id for one in done if one.outcome == "added"]

    assert 5 == len(ids)
    assert sorted(ids) == ids


async def test_a_job_that_is_updated_keeps_its_id(sql: Session) -> None:
    """An id names one request to its caller: it burns no others."""
    first = await add_one(sql)
    await add_one(sql)
    await add_one(sql, mode="unsafe_dedupe")
    last = await add_one(sql, key="other")

    assert first.id + 1 == last.id


async def test_names_are_stored_for_added_and_updated_jobs(sql: Session) -> None:
    """Other names are not stored."""
    await add_one(sql, key="a")
    await add_all(
        sql,
        [
            Spec("updated", queue="q1", key="a"),
            Spec("added", queue="q2", key="b", mode="unsafe_dedupe"),
            Spec("refused", queue="q3", key="b", mode="unsafe_dedupe"),
            Spec("plain", queue="q4", key=None, mode="unsafe_dedupe"),
        ],
    )

    assert ["added", "plain", "t", "updated"] == await names(sql)


async def test_calls_in_transactions_of_their_own_see_each_other(own: Session) -> None:
    """Many transactions give the same result as the one transaction of the other tests."""
    first = await add_one(own)
    second = await add_one(own)
    done = await add_all(own, [Spec(), Spec(key="b"), Spec()])

    assert Done("updated", first.id, first.id, "available") == second
    assert ["updated", "added", "updated"] == [one.outcome for one in done]
