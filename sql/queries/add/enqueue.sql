-- enqueue(jobs text) -> ord bigint, outcome text, id bigint, existing_id bigint, existing_state text
-- The way in for a role that may add jobs and nothing else; text, as in add_jobs, since callers have codecs of their
-- own.
select ord, outcome, id, existing_id, existing_state from asyncq.enqueue($1::text::json) order by ord
