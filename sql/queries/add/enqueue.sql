-- enqueue(jobs text) -> ord bigint, outcome text, id bigint, existing_id bigint, existing_state text
-- For a role that may only add jobs. Text, as in add_jobs, since callers have codecs of their own.
select ord, outcome, id, existing_id, existing_state from asyncq.enqueue($1::text::json) order by ord
