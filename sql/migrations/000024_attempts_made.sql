-- attempts_made  the number of attempts of a job that failed for good before its last one: discarded, failed by hand, or its key
--                was taken. attempts is max_attempts then. Null for any other job.

alter table asyncq._jobs add column attempts_made smallint;
