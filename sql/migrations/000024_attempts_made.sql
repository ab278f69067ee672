-- attempts_made  of a job that got no further attempt before its last one (discarded, failed by hand, its key taken): how many were
--                made; attempts says then that none is left. Null of any other job.

alter table asyncq._jobs add column attempts_made smallint;
