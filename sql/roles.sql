-- Rights: the worker role runs jobs, the enqueuer role adds jobs and can do nothing else, PUBLIC gets nothing. The
-- owner of the schema runs this after each `asyncq migrate`, as often as it likes, by one of
--
--   asyncq roles --worker app_worker --enqueuer app_web --apply
--   psql -v ON_ERROR_STOP=1 -v worker=app_worker -v enqueuer=app_web -f roles.sql
--
-- A role that is missing is created, without the right to log in: grant it to those that log in, or alter it. First the
-- script revokes all rights of both roles in the schema: a right that is not listed is refused.

begin;
set local search_path = pg_catalog, pg_temp;
-- No schema's name is used here, since a word such as plpgsql is not allowed in the name of a setting.
set local asyncq_roles.worker = :'worker';
set local asyncq_roles.enqueuer = :'enqueuer';

do $$
declare
  owner oid := (select nspowner from pg_namespace where nspname = 'asyncq');
  worker constant name := current_setting('asyncq_roles.worker');
  enqueuer constant name := current_setting('asyncq_roles.enqueuer');
  missing name;
  mighty record;
begin
  if owner is null then
    raise exception using errcode = '3F000', message = 'schema "asyncq" does not exist';
  elsif not pg_has_role(owner, 'usage') then
    raise exception using errcode = '42501',
      message = format('only the owner of schema asyncq, %s, can say who may use it', owner::regrole);
  elsif 'public' in (worker, enqueuer) then
    raise exception using errcode = '22023', message = 'public is no role, but everybody';
  end if;
  -- One at a time, and none beside a migration.
  perform pg_advisory_xact_lock(hashtextextended('asyncq:migrate', 0));
  for missing in
    select distinct given.name from unnest(array[worker, enqueuer]) as given(name)
    where not exists (select from pg_roles where rolname = given.name)
  loop
    execute format('create role %I', missing);
  end loop;
  -- It is a mistake to revoke the owner's own rights, or to restrict a role that has all rights of a greater one.
  select given.name, given.other into mighty
    from (values (worker, pg_get_userbyid(owner)), (enqueuer, pg_get_userbyid(owner)), (enqueuer, worker))
      as given(name, other)
    where pg_has_role(given.name, given.other, 'usage') limit 1;
  if found then
    raise exception using errcode = '22023',
      message = format('role %I has all the rights of role %I: choose another one', mighty.name, mighty.other);
  end if;
end
$$;

revoke all on schema asyncq from public, :"worker", :"enqueuer";
revoke all on all tables in schema asyncq from public, :"worker", :"enqueuer";
revoke all on all sequences in schema asyncq from public, :"worker", :"enqueuer";
revoke all on all routines in schema asyncq from public, :"worker", :"enqueuer";

-- The enqueuer: one function, which runs with the rights of the owner.
grant usage on schema asyncq to :"enqueuer";
grant execute on function asyncq.enqueue to :"enqueuer";

-- The worker: the objects that sql/queries and the functions below use. No truncate, no triggers, no foreign keys.
grant usage on schema asyncq to :"worker";
grant select, insert, update on asyncq._limits to :"worker";
grant select on asyncq._migrations, asyncq._shown_jobs, asyncq.attempts, asyncq.history, asyncq.jobs, asyncq.limits, asyncq.pauses,
  asyncq.progress to :"worker";
grant select, insert on asyncq._server_runs to :"worker";
grant select, insert, delete on asyncq._depths, asyncq._wakeups to :"worker";
grant select, insert, update, delete on asyncq._attempts, asyncq._batches, asyncq._closings, asyncq._cron_items, asyncq._ended_jobs, asyncq._key_locks,
  asyncq._jobs, asyncq._handoff_slots, asyncq._inputs, asyncq._progress, asyncq._partitions, asyncq._requests, asyncq._stats, asyncq._steps, asyncq._tasks, asyncq._waits, asyncq._workers, asyncq.known_crontabs to :"worker";
grant usage on sequence asyncq._jobs_id_seq to :"worker";
grant execute on function
  asyncq.add_cron_item, asyncq.add_job, asyncq.add_jobs, asyncq.backlog, asyncq.cancel_jobs, asyncq.change_matching, asyncq.change_cron_item, asyncq.cleanup,
  asyncq.clock, asyncq.complete_jobs, asyncq.count_matching, asyncq.counts, asyncq.depths, asyncq.depths_by, asyncq.explain,
  asyncq.failed_jobs, asyncq.failures, asyncq.find_jobs, asyncq.force_unlock_workers, asyncq.get_job,
  asyncq.get_job_by_key, asyncq.list_cron_items, asyncq.now, asyncq.oldest_due, asyncq.partitions, asyncq.pause, asyncq.quantile, asyncq.pause_cron_item,
  asyncq.permanently_fail_jobs, asyncq.redact_ended_jobs, asyncq.remove_cron_item, asyncq.remove_ended_jobs, asyncq.remove_job, asyncq.remove_limit, asyncq.reschedule_jobs, asyncq.resume, asyncq.resume_cron_item,
  asyncq.retry_jobs, asyncq.run_cron_item, asyncq.running, asyncq.set_limit, asyncq.set_partition, asyncq.stats, asyncq.unset_limit, asyncq.violations, asyncq.workers,
  asyncq._add_stats, asyncq._arms, asyncq._prune_stats, asyncq._write_stats, asyncq._check_changes, asyncq._check_page, asyncq._condition, asyncq._find_ids, asyncq._find_jobs, asyncq._first_line, asyncq._holds, asyncq._moment, asyncq._sample_percent, asyncq._walk,
  asyncq._add_cron_item, asyncq._add_due_slots, asyncq._add_first_of_each_key, asyncq._add_in_pieces,
  asyncq._add_jobs, asyncq._add_keyless_job, asyncq._add_many_jobs, asyncq._add_slots, asyncq._addable_slots,
  asyncq._add_waits, asyncq._added_job, asyncq._administer_jobs, asyncq._after, asyncq._all_ask_alike, asyncq._all_jobs, asyncq._allowance, asyncq._allowed_at, asyncq._batched_jobs,
  asyncq._are_allowed, asyncq._back_off, asyncq._begin_partitions, asyncq._cancel_running, asyncq._canonical, asyncq._canonical_members,
  asyncq._canonical_number, asyncq._cell, asyncq._claims_behind, asyncq._change_cron_item, asyncq._changed_tasks, asyncq._check_cron_item, asyncq._check_escapes,
  asyncq._check_jobs, asyncq._check_moment, asyncq._check_names, asyncq._check_pause, asyncq._check_policy, asyncq._check_requests, asyncq._check_values, asyncq._chosen, asyncq._claimed,
  asyncq._collect_tasks, asyncq._commit_status, asyncq._complete_claim, asyncq._correct_counts, asyncq._counts, asyncq._cron_definition,
  asyncq._cron_status, asyncq._cut_waits, asyncq._declare_limits, asyncq._declare_queues, asyncq._declare_tasks, asyncq._digest, asyncq._document, asyncq._drop_waits, asyncq._due_slots, asyncq._end_backend, asyncq._end_document, asyncq._end_jobs, asyncq._end_limits,
  asyncq._end_transactions, asyncq._ended_document, asyncq._ended_wakeups, asyncq._errors, asyncq._expire_jobs, asyncq._explain_partition, asyncq._explain_pending, asyncq._explain_unready, asyncq._extra, asyncq._extras, asyncq._first_partitioned, asyncq._first_plain, asyncq._full_gate, asyncq._kinds, asyncq._prune_partitions, asyncq._wake_stranded, asyncq._woken_kinds, asyncq._plain_tasks, asyncq._fits_batch, asyncq._flags,
  asyncq._force_unlock_workers, asyncq._gate, asyncq._gather_starts, asyncq._go_on_call, asyncq._grace, asyncq._has_just_returned, asyncq._has_on_call,
  asyncq._has_open_slot, asyncq._has_open_wait, asyncq._has_untouched_wait, asyncq._heads, asyncq._insert_jobs, asyncq._is_ahead, asyncq._is_allowed, asyncq._is_batchable, asyncq._is_chosen, asyncq._is_declared,
  asyncq._is_discarded, asyncq._is_due, asyncq._is_known, asyncq._is_leased, asyncq._is_listening, asyncq._is_live,
  asyncq._is_raised, asyncq._is_ready, asyncq._is_responsive, asyncq._joined_arrays, asyncq._judged, asyncq._keep_batch, asyncq._keep_completed, asyncq._keep_job, asyncq._kept_states, asyncq._kept_until, asyncq._key_of, asyncq._leave_closings, asyncq._leave_on_call,
  asyncq._limit_at, asyncq._limit_id, asyncq._limit_name, asyncq._list_history, asyncq._list_workers, asyncq._lock_awaited, asyncq._lock_claim, asyncq._lock_cron_item, asyncq._lock_crontabs,
  asyncq._lock_jobs, asyncq._lock_key_holders, asyncq._lock_keys, asyncq._lock_space, asyncq._locks_since, asyncq._look,
  asyncq._matches, asyncq._max_attempts, asyncq._merged_payload, asyncq._misplaced_batches, asyncq._mixes_keys, asyncq._move_jobs, asyncq._never, asyncq._new_job, asyncq._newest_cell, asyncq._nfc,
  asyncq._no_limit, asyncq._note_block, asyncq._note_discarded, asyncq._of_all_keys, asyncq._open_slot, asyncq._outlived, asyncq._overlap, asyncq._override_limit, asyncq._override_partition, asyncq._partition, asyncq._partition_counts, asyncq._partition_of, asyncq._partition_state, asyncq._partitions_of_claims, asyncq._pass_results, asyncq._pass_on_ends, asyncq._pause_of, asyncq._pauses_of, asyncq._period, asyncq._place_jobs, asyncq._priority,
  asyncq._progress_of, asyncq._prune, asyncq._prune_inputs, asyncq._prune_key_locks, asyncq._prune_partitions, asyncq._prune_progress, asyncq._prune_steps, asyncq._queue_partitions, asyncq._recount_gates, asyncq._recounted, asyncq._register_crontabs, asyncq._release, asyncq._release_waiters, asyncq._remove_job,
  asyncq._replace_jobs, asyncq._report_cron, asyncq._request, asyncq._rerun_jobs, asyncq._rescue_jobs,
  asyncq._resolve_job_keys, asyncq._resolve_unique, asyncq._return_lost, asyncq._run_cron_item, asyncq._set_pause, asyncq._settle_gates, asyncq._settle_rest,
  asyncq._shown, asyncq._spent, asyncq._start_within, asyncq._split_batch_of_claim, asyncq._split_batches, asyncq._split_batches_of_jobs,
  asyncq._split_batches_of_worker, asyncq._state, asyncq._state_of, asyncq._store_gate, asyncq._store_limit, asyncq._store_partition, asyncq._store_requests, asyncq._store_step, asyncq._steps_of, asyncq._store_tasks, asyncq._task_ids, asyncq._taken, asyncq._tell_discarded, asyncq._takes, asyncq._tell_pause, asyncq._tell_watchers,
  asyncq._task_ids_of, asyncq._unique_key, asyncq._unset_keys, asyncq._update_jobs, asyncq._used_tasks, asyncq._utc, asyncq._wake_cron,
  asyncq._wake_ended, asyncq._wake_for, asyncq._wake_heads, asyncq._wake_limit, asyncq._wait_violations, asyncq._wake_partitions, asyncq._wake_stranded, asyncq._wake_workers, asyncq._watch, asyncq._watch_workers, asyncq._with_inputs, asyncq._with_watchers
  to :"worker";

commit;
