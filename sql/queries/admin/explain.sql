-- explain(job_id bigint) -> reason text, detail text
select reason, detail from asyncq.explain($1::bigint)
