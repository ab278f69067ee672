"""The headline figures of limits. Pure."""

from __future__ import annotations

from benchmarks.suite.headline import Headline

OF_LIMITS: tuple[Headline, ...] = (
    Headline(
        name="limit_vs_plain",
        words="drain of a task whose limit is never reached, to drain",
        goal=0.7,
        work="roomy",
        field="of_plain",
    ),
    Headline(
        name="keys_1_vs_plain",
        words="10,000 keys of 10, limit 1, to drain",
        goal=0.35,
        work="keyed_1",
        field="of_plain",
    ),
    Headline(
        name="keys_1_longest_fetch_ms",
        words="10,000 keys of 10, limit 1, longest fetch, ms",
        goal=25.0,
        better="less",
        work="keyed_1",
        field="longest_fetch_ms",
    ),
    Headline(
        name="keys_3_vs_plain",
        words="10,000 keys of 10, limit 3, to drain",
        goal=0.4,
        work="keyed_3",
        field="of_plain",
    ),
    Headline(
        name="keys_3_longest_fetch_ms",
        words="10,000 keys of 10, limit 3, longest fetch, ms",
        goal=25.0,
        better="less",
        work="keyed_3",
        field="longest_fetch_ms",
    ),
    Headline(
        name="shared_limit",
        words="two workers on one limited task, to one",
        goal=0.7,
        work="shared",
    ),
    Headline(
        name="freed_slot_ms",
        words="end of a call to the next start of a full limit, p95, ms",
        goal=5.0,
        better="less",
        work="freed",
        field="p95",
    ),
    Headline(
        name="blocked_full_cpu_ms",
        words="fetch beside 1,000,000 jobs behind full keys, ms of CPU",
        goal=5.0,
        better="less",
        work="blocked_full",
    ),
    Headline(
        name="blocked_full_longest_fetch_ms",
        words="the same, longest fetch, ms",
        goal=25.0,
        better="less",
        work="blocked_full",
        field="longest_fetch_ms",
    ),
    Headline(
        name="blocked_paused_cpu_ms",
        words="fetch beside 1,000,000 jobs that are paused, ms of CPU",
        goal=5.0,
        better="less",
        work="blocked_paused",
    ),
    Headline(
        name="blocked_paused_longest_fetch_ms",
        words="the same, longest fetch, ms",
        goal=25.0,
        better="less",
        work="blocked_paused",
        field="longest_fetch_ms",
    ),
    Headline(
        name="blocked_rate_cpu_ms",
        words="fetch beside 1,000,000 jobs that wait for a rate, ms of CPU",
        goal=5.0,
        better="less",
        work="blocked_rate",
    ),
    Headline(
        name="blocked_rate_longest_fetch_ms",
        words="the same, longest fetch, ms",
        goal=25.0,
        better="less",
        work="blocked_rate",
        field="longest_fetch_ms",
    ),
    Headline(
        name="paused_idle_cpu",
        words="CPU of a worker that idles beside 1,000,000 paused jobs",
        goal=0.02,
        better="less",
        work="blocked_paused",
        field="idle_cpu",
    ),
)
