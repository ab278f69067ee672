-- violations() -> law text, job_id bigint, said text
select law, job_id, said from asyncq.violations()
