"""Who may do what, as a table: the truth that sql/roles.sql is compared with.

What stands in no line is refused to everybody but the owner. A new table or function that a worker touches needs a line
here and a grant in sql/roles.sql; tests/sql/test_roles.py says which.
"""

from asyncq.store.statements import folder

WORKER = {
    "schema": "usage",
    "view jobs": "select",
    "table _cron_items": "select insert update delete",
    "table _ended_jobs": "select insert update delete",
    "table _gate": "select insert update delete",
    "table _jobs": "select insert update delete",
    "table _migrations": "select",
    "table _queues": "select insert update delete",
    "table _requests": "select insert update delete",
    "table _server_runs": "select insert",
    "table _tasks": "select insert update delete",
    "table _workers": "select insert update delete",
    "table known_crontabs": "select insert update delete",
    "sequence _jobs_id_seq": "usage",
    "function add_cron_item": "execute",
    "function add_job": "execute",
    "function add_jobs": "execute",
    "function cancel_jobs": "execute",
    "function change_cron_item": "execute",
    "function cleanup": "execute",
    "function clock": "execute",
    "function complete_jobs": "execute",
    "function counts": "execute",
    "function explain": "execute",
    "function force_unlock_workers": "execute",
    "function get_job": "execute",
    "function get_job_by_key": "execute",
    "function list_cron_items": "execute",
    "function list_jobs": "execute",
    "function now": "execute",
    "function pause_cron_item": "execute",
    "function permanently_fail_jobs": "execute",
    "function remove_cron_item": "execute",
    "function remove_job": "execute",
    "function reschedule_jobs": "execute",
    "function resume_cron_item": "execute",
    "function retry_jobs": "execute",
    "function run_cron_item": "execute",
    "function violations": "execute",
    "function _add_asking_jobs": "execute",
    "function _add_cron_item": "execute",
    "function _add_distinct_jobs": "execute",
    "function _add_doubled_jobs": "execute",
    "function _add_due_slots": "execute",
    "function _add_first_jobs": "execute",
    "function _add_jobs": "execute",
    "function _add_keyed_jobs": "execute",
    "function _add_keyless_job": "execute",
    "function _add_sharing_jobs": "execute",
    "function _add_slots": "execute",
    "function _administer_jobs": "execute",
    "function _all_ask_alike": "execute",
    "function _begin_anew": "execute",
    "function _cancel_running": "execute",
    "function _canonical": "execute",
    "function _canonical_members": "execute",
    "function _canonical_number": "execute",
    "function _change_cron_item": "execute",
    "function _check_cron_item": "execute",
    "function _check_escapes": "execute",
    "function _check_jobs": "execute",
    "function _check_names": "execute",
    "function _check_options": "execute",
    "function _check_policy": "execute",
    "function _check_requests": "execute",
    "function _collect_tasks": "execute",
    "function _complete_held": "execute",
    "function _counts": "execute",
    "function _cron_definition": "execute",
    "function _cron_status": "execute",
    "function _dedupe": "execute",
    "function _digest": "execute",
    "function _document": "execute",
    "function _due_slots": "execute",
    "function _end_jobs": "execute",
    "function _end_marked": "execute",
    "function _end_transactions": "execute",
    "function _explain_unready": "execute",
    "function _fate": "execute",
    "function _flags": "execute",
    "function _force_unlock_workers": "execute",
    "function _gate": "execute",
    "function _grace": "execute",
    "function _has_failed": "execute",
    "function _has_lookout": "execute",
    "function _hold_claim": "execute",
    "function _hold_cron_item": "execute",
    "function _hold_crontabs": "execute",
    "function _hold_keys": "execute",
    "function _hold_queues": "execute",
    "function _insert_jobs": "execute",
    "function _is_allowed": "execute",
    "function _is_declared": "execute",
    "function _is_due": "execute",
    "function _is_known": "execute",
    "function _is_leased": "execute",
    "function _is_live": "execute",
    "function _is_ready": "execute",
    "function _job": "execute",
    "function _kept_states": "execute",
    "function _kept_until": "execute",
    "function _leave_lookout": "execute",
    "function _list_jobs": "execute",
    "function _list_workers": "execute",
    "function _lock_space": "execute",
    "function _locks_since": "execute",
    "function _looks_back": "execute",
    "function _matches": "execute",
    "function _merged_payload": "execute",
    "function _mixes_keys": "execute",
    "function _nfc": "execute",
    "function _open_slots": "execute",
    "function _outlived": "execute",
    "function _overlap": "execute",
    "function _period": "execute",
    "function _prune": "execute",
    "function _prune_gates": "execute",
    "function _register_crontabs": "execute",
    "function _remove_job": "execute",
    "function _replace_jobs": "execute",
    "function _request": "execute",
    "function _rescue_jobs": "execute",
    "function _return_lost": "execute",
    "function _run_cron_item": "execute",
    "function _settle_special": "execute",
    "function _shown": "execute",
    "function _singleton_key": "execute",
    "function _state": "execute",
    "function _store_requests": "execute",
    "function _store_tasks": "execute",
    "function _take_lookout": "execute",
    "function _task_ids": "execute",
    "function _task_ids_of": "execute",
    "function _tell_cron": "execute",
    "function _unique_key": "execute",
    "function _update_jobs": "execute",
    "function _used_tasks": "execute",
    "function _utc": "execute",
    "function _wake_cron": "execute",
    "function _wake_for": "execute",
    "function _wake_workers": "execute",
    "function _watch_workers": "execute",
}

ENQUEUER = {
    "schema": "usage",
    "function enqueue": "execute",
}

STRANGER: dict[str, str] = {}

MEND = f"mend {folder() / 'roles.sql'} and {__file__}"

# What can be done with an object of each kind, and how the server is asked whether a role may.
PRIVILEGES = {
    "schema": ("schema", "usage create"),
    "table": ("table", "select insert update delete truncate references trigger"),
    "view": ("table", "select insert update delete truncate references trigger"),
    "sequence": ("sequence", "usage select update"),
    "function": ("function", "execute"),
    "type": ("type", "usage"),
}

OBJECTS = """
select 'schema' as kind, 'schema' as name, oid from pg_catalog.pg_namespace where oid = 'asyncq'::regnamespace
union all
select kind.word, kind.word || ' ' || relname, relation.oid
from pg_catalog.pg_class as relation
join (values ('r', 'table'), ('p', 'table'), ('f', 'table'), ('v', 'view'), ('m', 'view'), ('S', 'sequence'))
  as kind(letter, word) on kind.letter = relation.relkind::text
where relnamespace = 'asyncq'::regnamespace
union all
select 'function', 'function ' || proname, oid from pg_catalog.pg_proc where pronamespace = 'asyncq'::regnamespace
union all
select 'type', 'type ' || typname, oid
from pg_catalog.pg_type where typnamespace = 'asyncq'::regnamespace and not (typelem <> 0 and typlen = -1)
order by name
"""
