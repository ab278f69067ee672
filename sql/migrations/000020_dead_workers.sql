-- died_at  when a rescue declared the worker dead. Its row exists until its last claim has ended, and its id is never used again.

alter table asyncq._workers add column died_at timestamptz;
