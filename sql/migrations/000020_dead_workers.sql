-- died_at  when a rescue declared the worker dead. Its row stays until the last of its claims is gone, and its id is never used again.

alter table asyncq._workers add column died_at timestamptz;
