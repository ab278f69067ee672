# Made by shtab out of the parser of asyncq: python3 tools/x.py completion
_shtab_asyncq_jobs_subparsers=(show ls counts explain wait retry cancel complete discard fail reschedule rm redact)
_shtab_asyncq_cron_subparsers=(ls next add change pause resume rm run)
_shtab_asyncq_workers_subparsers=(ls unlock)
_shtab_asyncq_subparsers=(worker dev migrate roles add jobs tasks queues stats top cron workers limits partitions limit pause resume cleanup metrics probe doctor dashboard config completion)

_shtab_asyncq_worker_option_strings=(-h --help --dsn --schema --log-level --tasks --once -j --concurrency --processes --reload --task-processes --poll --lease --grace --discarded-retention --error-retention --keep --no-listen --no-stats --listen-dsn --forbid --queues --exclude --crontab --migrate --http --unhealthy-after --lifespan --codec --log-format)
_shtab_asyncq_dev_option_strings=(-h --help --dsn --schema --log-level --tasks -j --concurrency --crontab --port)
_shtab_asyncq_migrate_option_strings=(-h --help --dsn --schema --log-level --check --json)
_shtab_asyncq_roles_option_strings=(-h --help --dsn --schema --log-level --worker --enqueuer --monitor --apply)
_shtab_asyncq_add_option_strings=(-h --help --dsn --schema --log-level --queue --run-at --in --max-attempts --priority --flag --meta --job-key --job-key-mode --unique --singleton --subject --force --rerun --idempotency-key --timeout --soft-timeout --expires --deadline --keep --after --if-failed --json)
_shtab_asyncq_jobs_show_option_strings=(-h --help --dsn --schema --log-level --json)
_shtab_asyncq_jobs_ls_option_strings=(-h --help --dsn --schema --log-level --state --task --queue --flag --key --has --error --due-before --added-after --oldest --limit --from --ended --since --before --json --all)
_shtab_asyncq_jobs_counts_option_strings=(-h --help --dsn --schema --log-level --exact --json)
_shtab_asyncq_jobs_explain_option_strings=(-h --help --dsn --schema --log-level --json)
_shtab_asyncq_jobs_wait_option_strings=(-h --help --dsn --schema --log-level --timeout)
_shtab_asyncq_jobs_retry_option_strings=(-h --help --dsn --schema --log-level --state --task --queue --flag --key --has --error --due-before --added-after --dry-run --yes --json)
_shtab_asyncq_jobs_cancel_option_strings=(-h --help --dsn --schema --log-level --state --task --queue --flag --key --has --error --due-before --added-after --dry-run --yes --json)
_shtab_asyncq_jobs_complete_option_strings=(-h --help --dsn --schema --log-level --state --task --queue --flag --key --has --error --due-before --added-after --dry-run --yes --json)
_shtab_asyncq_jobs_discard_option_strings=(-h --help --dsn --schema --log-level --state --task --queue --flag --key --has --error --due-before --added-after --dry-run --yes --json --message)
_shtab_asyncq_jobs_fail_option_strings=(-h --help --dsn --schema --log-level --state --task --queue --flag --key --has --error --due-before --added-after --dry-run --yes --json --message)
_shtab_asyncq_jobs_reschedule_option_strings=(-h --help --dsn --schema --log-level --state --task --queue --flag --key --has --error --due-before --added-after --dry-run --yes --json --now --run-at --in --priority --attempts --max-attempts)
_shtab_asyncq_jobs_rm_option_strings=(-h --help --dsn --schema --log-level --state --task --queue --flag --key --has --error --due-before --added-after --dry-run --yes --ended --json)
_shtab_asyncq_jobs_redact_option_strings=(-h --help --dsn --schema --log-level)
_shtab_asyncq_jobs_option_strings=(-h --help)
_shtab_asyncq_tasks_option_strings=(-h --help --dsn --schema --log-level --json)
_shtab_asyncq_queues_option_strings=(-h --help --dsn --schema --log-level --most --json)
_shtab_asyncq_stats_option_strings=(-h --help --dsn --schema --log-level --since --step --task --json)
_shtab_asyncq_top_option_strings=(-h --help --dsn --schema --log-level --once)
_shtab_asyncq_cron_ls_option_strings=(-h --help --dsn --schema --log-level --json)
_shtab_asyncq_cron_next_option_strings=(-h --help --dsn --schema --log-level --expression --tz --dialect --count)
_shtab_asyncq_cron_add_option_strings=(-h --help --dsn --schema --log-level --dialect --json)
_shtab_asyncq_cron_change_option_strings=(-h --help --dsn --schema --log-level --expression --task --tz --queue --job-key --payload --dialect --fill --overlap --max-attempts --priority --flag --job-key-mode --unset --json)
_shtab_asyncq_cron_pause_option_strings=(-h --help --dsn --schema --log-level --json)
_shtab_asyncq_cron_resume_option_strings=(-h --help --dsn --schema --log-level --json)
_shtab_asyncq_cron_rm_option_strings=(-h --help --dsn --schema --log-level --json)
_shtab_asyncq_cron_run_option_strings=(-h --help --dsn --schema --log-level --json)
_shtab_asyncq_cron_option_strings=(-h --help)
_shtab_asyncq_workers_ls_option_strings=(-h --help --dsn --schema --log-level --json)
_shtab_asyncq_workers_unlock_option_strings=(-h --help --dsn --schema --log-level --silent-for --json)
_shtab_asyncq_workers_option_strings=(-h --help)
_shtab_asyncq_limits_option_strings=(-h --help --dsn --schema --log-level --json)
_shtab_asyncq_partitions_option_strings=(-h --help --dsn --schema --log-level --most --json)
_shtab_asyncq_limit_option_strings=(-h --help --dsn --schema --log-level --key --at-once --rate --total --total-rate --weight --unset --remove --by --json)
_shtab_asyncq_pause_option_strings=(-h --help --dsn --schema --log-level --task --queue --limit --key --all --reason --by --json)
_shtab_asyncq_resume_option_strings=(-h --help --dsn --schema --log-level --task --queue --limit --key --all --reason --by --json)
_shtab_asyncq_cleanup_option_strings=(-h --help --dsn --schema --log-level --keep --json)
_shtab_asyncq_metrics_option_strings=(-h --help --dsn --schema --log-level --http)
_shtab_asyncq_probe_option_strings=(-h --help)
_shtab_asyncq_doctor_option_strings=(-h --help --dsn --schema --log-level --repair --json)
_shtab_asyncq_dashboard_option_strings=(-h --help --dsn --schema --log-level --host --port --read-only --hide-payloads)
_shtab_asyncq_config_option_strings=(-h --help --dsn --schema --log-level --json)
_shtab_asyncq_completion_option_strings=(-h --help)
_shtab_asyncq_option_strings=(-h --help --version)



_shtab_asyncq_worker___log_level_choices=(debug info warning error)
_shtab_asyncq_worker___log_format_choices=(text json)
_shtab_asyncq_dev___log_level_choices=(debug info warning error)
_shtab_asyncq_migrate___log_level_choices=(debug info warning error)
_shtab_asyncq_roles___log_level_choices=(debug info warning error)
_shtab_asyncq_add___log_level_choices=(debug info warning error)
_shtab_asyncq_add___job_key_mode_choices=(replace preserve_run_at unsafe_dedupe)
_shtab_asyncq_add___if_failed_choices=(wait cancel run)
_shtab_asyncq_jobs_show___log_level_choices=(debug info warning error)
_shtab_asyncq_jobs_ls___log_level_choices=(debug info warning error)
_shtab_asyncq_jobs_ls___state_choices=(scheduled available active retryable pending cancelled discarded completed)
_shtab_asyncq_jobs_counts___log_level_choices=(debug info warning error)
_shtab_asyncq_jobs_explain___log_level_choices=(debug info warning error)
_shtab_asyncq_jobs_wait___log_level_choices=(debug info warning error)
_shtab_asyncq_jobs_retry___log_level_choices=(debug info warning error)
_shtab_asyncq_jobs_retry___state_choices=(scheduled available active retryable pending cancelled discarded)
_shtab_asyncq_jobs_cancel___log_level_choices=(debug info warning error)
_shtab_asyncq_jobs_cancel___state_choices=(scheduled available active retryable pending cancelled discarded)
_shtab_asyncq_jobs_complete___log_level_choices=(debug info warning error)
_shtab_asyncq_jobs_complete___state_choices=(scheduled available active retryable pending cancelled discarded)
_shtab_asyncq_jobs_discard___log_level_choices=(debug info warning error)
_shtab_asyncq_jobs_discard___state_choices=(scheduled available active retryable pending cancelled discarded)
_shtab_asyncq_jobs_fail___log_level_choices=(debug info warning error)
_shtab_asyncq_jobs_fail___state_choices=(scheduled available active retryable pending cancelled discarded)
_shtab_asyncq_jobs_reschedule___log_level_choices=(debug info warning error)
_shtab_asyncq_jobs_reschedule___state_choices=(scheduled available active retryable pending cancelled discarded)
_shtab_asyncq_jobs_rm___log_level_choices=(debug info warning error)
_shtab_asyncq_jobs_rm___state_choices=(scheduled available active retryable pending cancelled discarded)
_shtab_asyncq_jobs_redact___log_level_choices=(debug info warning error)
_shtab_asyncq_jobs_pos_0_choices=(show ls counts explain wait retry cancel complete discard fail reschedule rm redact)
_shtab_asyncq_tasks___log_level_choices=(debug info warning error)
_shtab_asyncq_queues___log_level_choices=(debug info warning error)
_shtab_asyncq_stats___log_level_choices=(debug info warning error)
_shtab_asyncq_top___log_level_choices=(debug info warning error)
_shtab_asyncq_cron_ls___log_level_choices=(debug info warning error)
_shtab_asyncq_cron_next___log_level_choices=(debug info warning error)
_shtab_asyncq_cron_next___dialect_choices=(extended crontab)
_shtab_asyncq_cron_add___log_level_choices=(debug info warning error)
_shtab_asyncq_cron_add___dialect_choices=(extended crontab)
_shtab_asyncq_cron_change___log_level_choices=(debug info warning error)
_shtab_asyncq_cron_change___dialect_choices=(extended crontab)
_shtab_asyncq_cron_change___overlap_choices=(allow skip replace)
_shtab_asyncq_cron_change___job_key_mode_choices=(replace preserve_run_at unsafe_dedupe)
_shtab_asyncq_cron_change___unset_choices=(tz queue job-key payload dialect fill overlap max-attempts priority flags job-key-mode)
_shtab_asyncq_cron_pause___log_level_choices=(debug info warning error)
_shtab_asyncq_cron_resume___log_level_choices=(debug info warning error)
_shtab_asyncq_cron_rm___log_level_choices=(debug info warning error)
_shtab_asyncq_cron_run___log_level_choices=(debug info warning error)
_shtab_asyncq_cron_pos_0_choices=(ls next add change pause resume rm run)
_shtab_asyncq_workers_ls___log_level_choices=(debug info warning error)
_shtab_asyncq_workers_unlock___log_level_choices=(debug info warning error)
_shtab_asyncq_workers_pos_0_choices=(ls unlock)
_shtab_asyncq_limits___log_level_choices=(debug info warning error)
_shtab_asyncq_partitions___log_level_choices=(debug info warning error)
_shtab_asyncq_limit___log_level_choices=(debug info warning error)
_shtab_asyncq_pause___log_level_choices=(debug info warning error)
_shtab_asyncq_resume___log_level_choices=(debug info warning error)
_shtab_asyncq_cleanup___log_level_choices=(debug info warning error)
_shtab_asyncq_metrics___log_level_choices=(debug info warning error)
_shtab_asyncq_doctor___log_level_choices=(debug info warning error)
_shtab_asyncq_dashboard___log_level_choices=(debug info warning error)
_shtab_asyncq_config___log_level_choices=(debug info warning error)
_shtab_asyncq_completion_pos_0_choices=(bash zsh fish)
_shtab_asyncq_pos_0_choices=(worker dev migrate roles add jobs tasks queues stats top cron workers limits partitions limit pause resume cleanup metrics probe doctor dashboard config completion)

_shtab_asyncq_worker__h_nargs=0
_shtab_asyncq_worker___help_nargs=0
_shtab_asyncq_worker___once_nargs=0
_shtab_asyncq_worker___reload_nargs=0
_shtab_asyncq_worker___no_listen_nargs=0
_shtab_asyncq_worker___no_stats_nargs=0
_shtab_asyncq_worker___migrate_nargs=0
_shtab_asyncq_dev__h_nargs=0
_shtab_asyncq_dev___help_nargs=0
_shtab_asyncq_migrate__h_nargs=0
_shtab_asyncq_migrate___help_nargs=0
_shtab_asyncq_migrate___check_nargs=0
_shtab_asyncq_migrate___json_nargs=0
_shtab_asyncq_roles__h_nargs=0
_shtab_asyncq_roles___help_nargs=0
_shtab_asyncq_roles___apply_nargs=0
_shtab_asyncq_add__h_nargs=0
_shtab_asyncq_add___help_nargs=0
_shtab_asyncq_add___singleton_nargs=0
_shtab_asyncq_add___force_nargs=0
_shtab_asyncq_add___rerun_nargs=0
_shtab_asyncq_add___json_nargs=0
_shtab_asyncq_jobs_show__h_nargs=0
_shtab_asyncq_jobs_show___help_nargs=0
_shtab_asyncq_jobs_show___json_nargs=0
_shtab_asyncq_jobs_ls__h_nargs=0
_shtab_asyncq_jobs_ls___help_nargs=0
_shtab_asyncq_jobs_ls___oldest_nargs=0
_shtab_asyncq_jobs_ls___ended_nargs=0
_shtab_asyncq_jobs_ls___json_nargs=0
_shtab_asyncq_jobs_ls___all_nargs=0
_shtab_asyncq_jobs_counts__h_nargs=0
_shtab_asyncq_jobs_counts___help_nargs=0
_shtab_asyncq_jobs_counts___exact_nargs=0
_shtab_asyncq_jobs_counts___json_nargs=0
_shtab_asyncq_jobs_explain__h_nargs=0
_shtab_asyncq_jobs_explain___help_nargs=0
_shtab_asyncq_jobs_explain___json_nargs=0
_shtab_asyncq_jobs_wait__h_nargs=0
_shtab_asyncq_jobs_wait___help_nargs=0
_shtab_asyncq_jobs_retry_pos_0_nargs='*'
_shtab_asyncq_jobs_retry__h_nargs=0
_shtab_asyncq_jobs_retry___help_nargs=0
_shtab_asyncq_jobs_retry___dry_run_nargs=0
_shtab_asyncq_jobs_retry___yes_nargs=0
_shtab_asyncq_jobs_retry___json_nargs=0
_shtab_asyncq_jobs_cancel_pos_0_nargs='*'
_shtab_asyncq_jobs_cancel__h_nargs=0
_shtab_asyncq_jobs_cancel___help_nargs=0
_shtab_asyncq_jobs_cancel___dry_run_nargs=0
_shtab_asyncq_jobs_cancel___yes_nargs=0
_shtab_asyncq_jobs_cancel___json_nargs=0
_shtab_asyncq_jobs_complete_pos_0_nargs='*'
_shtab_asyncq_jobs_complete__h_nargs=0
_shtab_asyncq_jobs_complete___help_nargs=0
_shtab_asyncq_jobs_complete___dry_run_nargs=0
_shtab_asyncq_jobs_complete___yes_nargs=0
_shtab_asyncq_jobs_complete___json_nargs=0
_shtab_asyncq_jobs_discard_pos_0_nargs='*'
_shtab_asyncq_jobs_discard__h_nargs=0
_shtab_asyncq_jobs_discard___help_nargs=0
_shtab_asyncq_jobs_discard___dry_run_nargs=0
_shtab_asyncq_jobs_discard___yes_nargs=0
_shtab_asyncq_jobs_discard___json_nargs=0
_shtab_asyncq_jobs_fail_pos_0_nargs='*'
_shtab_asyncq_jobs_fail__h_nargs=0
_shtab_asyncq_jobs_fail___help_nargs=0
_shtab_asyncq_jobs_fail___dry_run_nargs=0
_shtab_asyncq_jobs_fail___yes_nargs=0
_shtab_asyncq_jobs_fail___json_nargs=0
_shtab_asyncq_jobs_reschedule_pos_0_nargs='*'
_shtab_asyncq_jobs_reschedule__h_nargs=0
_shtab_asyncq_jobs_reschedule___help_nargs=0
_shtab_asyncq_jobs_reschedule___dry_run_nargs=0
_shtab_asyncq_jobs_reschedule___yes_nargs=0
_shtab_asyncq_jobs_reschedule___json_nargs=0
_shtab_asyncq_jobs_reschedule___now_nargs=0
_shtab_asyncq_jobs_rm_pos_0_nargs='*'
_shtab_asyncq_jobs_rm__h_nargs=0
_shtab_asyncq_jobs_rm___help_nargs=0
_shtab_asyncq_jobs_rm___dry_run_nargs=0
_shtab_asyncq_jobs_rm___yes_nargs=0
_shtab_asyncq_jobs_rm___ended_nargs=0
_shtab_asyncq_jobs_rm___json_nargs=0
_shtab_asyncq_jobs_redact_pos_0_nargs=+
_shtab_asyncq_jobs_redact__h_nargs=0
_shtab_asyncq_jobs_redact___help_nargs=0
_shtab_asyncq_jobs_pos_0_nargs=A...
_shtab_asyncq_jobs__h_nargs=0
_shtab_asyncq_jobs___help_nargs=0
_shtab_asyncq_tasks__h_nargs=0
_shtab_asyncq_tasks___help_nargs=0
_shtab_asyncq_tasks___json_nargs=0
_shtab_asyncq_queues__h_nargs=0
_shtab_asyncq_queues___help_nargs=0
_shtab_asyncq_queues___json_nargs=0
_shtab_asyncq_stats__h_nargs=0
_shtab_asyncq_stats___help_nargs=0
_shtab_asyncq_stats___json_nargs=0
_shtab_asyncq_top__h_nargs=0
_shtab_asyncq_top___help_nargs=0
_shtab_asyncq_top___once_nargs=0
_shtab_asyncq_cron_ls__h_nargs=0
_shtab_asyncq_cron_ls___help_nargs=0
_shtab_asyncq_cron_ls___json_nargs=0
_shtab_asyncq_cron_next__h_nargs=0
_shtab_asyncq_cron_next___help_nargs=0
_shtab_asyncq_cron_add__h_nargs=0
_shtab_asyncq_cron_add___help_nargs=0
_shtab_asyncq_cron_add___json_nargs=0
_shtab_asyncq_cron_change__h_nargs=0
_shtab_asyncq_cron_change___help_nargs=0
_shtab_asyncq_cron_change___json_nargs=0
_shtab_asyncq_cron_pause__h_nargs=0
_shtab_asyncq_cron_pause___help_nargs=0
_shtab_asyncq_cron_pause___json_nargs=0
_shtab_asyncq_cron_resume__h_nargs=0
_shtab_asyncq_cron_resume___help_nargs=0
_shtab_asyncq_cron_resume___json_nargs=0
_shtab_asyncq_cron_rm__h_nargs=0
_shtab_asyncq_cron_rm___help_nargs=0
_shtab_asyncq_cron_rm___json_nargs=0
_shtab_asyncq_cron_run__h_nargs=0
_shtab_asyncq_cron_run___help_nargs=0
_shtab_asyncq_cron_run___json_nargs=0
_shtab_asyncq_cron_pos_0_nargs=A...
_shtab_asyncq_cron__h_nargs=0
_shtab_asyncq_cron___help_nargs=0
_shtab_asyncq_workers_ls__h_nargs=0
_shtab_asyncq_workers_ls___help_nargs=0
_shtab_asyncq_workers_ls___json_nargs=0
_shtab_asyncq_workers_unlock_pos_0_nargs='*'
_shtab_asyncq_workers_unlock__h_nargs=0
_shtab_asyncq_workers_unlock___help_nargs=0
_shtab_asyncq_workers_unlock___json_nargs=0
_shtab_asyncq_workers_pos_0_nargs=A...
_shtab_asyncq_workers__h_nargs=0
_shtab_asyncq_workers___help_nargs=0
_shtab_asyncq_limits__h_nargs=0
_shtab_asyncq_limits___help_nargs=0
_shtab_asyncq_limits___json_nargs=0
_shtab_asyncq_partitions__h_nargs=0
_shtab_asyncq_partitions___help_nargs=0
_shtab_asyncq_partitions___json_nargs=0
_shtab_asyncq_limit__h_nargs=0
_shtab_asyncq_limit___help_nargs=0
_shtab_asyncq_limit___unset_nargs=0
_shtab_asyncq_limit___remove_nargs=0
_shtab_asyncq_limit___json_nargs=0
_shtab_asyncq_pause__h_nargs=0
_shtab_asyncq_pause___help_nargs=0
_shtab_asyncq_pause___all_nargs=0
_shtab_asyncq_pause___json_nargs=0
_shtab_asyncq_resume__h_nargs=0
_shtab_asyncq_resume___help_nargs=0
_shtab_asyncq_resume___all_nargs=0
_shtab_asyncq_resume___json_nargs=0
_shtab_asyncq_cleanup_pos_0_nargs='*'
_shtab_asyncq_cleanup__h_nargs=0
_shtab_asyncq_cleanup___help_nargs=0
_shtab_asyncq_cleanup___json_nargs=0
_shtab_asyncq_metrics__h_nargs=0
_shtab_asyncq_metrics___help_nargs=0
_shtab_asyncq_probe_pos_0_nargs='*'
_shtab_asyncq_probe__h_nargs=0
_shtab_asyncq_probe___help_nargs=0
_shtab_asyncq_doctor__h_nargs=0
_shtab_asyncq_doctor___help_nargs=0
_shtab_asyncq_doctor___repair_nargs=0
_shtab_asyncq_doctor___json_nargs=0
_shtab_asyncq_dashboard__h_nargs=0
_shtab_asyncq_dashboard___help_nargs=0
_shtab_asyncq_dashboard___read_only_nargs=0
_shtab_asyncq_dashboard___hide_payloads_nargs=0
_shtab_asyncq_config__h_nargs=0
_shtab_asyncq_config___help_nargs=0
_shtab_asyncq_config___json_nargs=0
_shtab_asyncq_completion__h_nargs=0
_shtab_asyncq_completion___help_nargs=0
_shtab_asyncq_pos_0_nargs=A...
_shtab_asyncq__h_nargs=0
_shtab_asyncq___help_nargs=0
_shtab_asyncq___version_nargs=0


# $1=COMP_WORDS[1]
_shtab_compgen_files() {
  compgen -f -- $1  # files
}

# $1=COMP_WORDS[1]
_shtab_compgen_dirs() {
  compgen -d -- $1  # recurse into subdirs
}

# $1=COMP_WORDS[1]
_shtab_replace_nonword() {
  echo "${1//[^[:word:]]/_}"
}

# set default values (called for the initial parser & any subparsers)
_set_parser_defaults() {
  local subparsers_var="${prefix}_subparsers[@]"
  sub_parsers=${!subparsers_var-}

  local current_option_strings_var="${prefix}_option_strings[@]"
  current_option_strings=${!current_option_strings_var}

  completed_positional_actions=0

  _set_new_action "pos_$completed_positional_actions" true
}

# $1=action identifier
# $2=positional action (bool)
# set all identifiers for an action's parameters
_set_new_action() {
  current_action="${prefix}_$(_shtab_replace_nonword $1)"

  local current_action_compgen_var=${current_action}_COMPGEN
  current_action_compgen="${!current_action_compgen_var-}"

  local current_action_choices_var="${current_action}_choices[@]"
  current_action_choices="${!current_action_choices_var-}"

  local current_action_nargs_var="${current_action}_nargs"
  if [ -n "${!current_action_nargs_var-}" ]; then
    current_action_nargs="${!current_action_nargs_var}"
  else
    current_action_nargs=1
  fi

  current_action_args_start_index=$(( $word_index + 1 - $pos_only ))

  current_action_is_positional=$2
}

# Notes:
# `COMPREPLY`: what will be rendered after completion is triggered
# `completing_word`: currently typed word to generate completions for
# `${!var}`: evaluates the content of `var` and expand its content as a variable
#     hello="world"
#     x="hello"
#     ${!x} -> ${hello} -> "world"
_shtab_asyncq() {
  local completing_word="${COMP_WORDS[COMP_CWORD]}"
  local previous_word="${COMP_WORDS[COMP_CWORD-1]}"
  local completed_positional_actions
  local current_action
  local current_action_args_start_index
  local current_action_choices
  local current_action_compgen
  local current_action_is_positional
  local current_action_nargs
  local current_option_strings
  local sub_parsers
  COMPREPLY=()

  local prefix=_shtab_asyncq
  local word_index=0
  local pos_only=0 # "--" delimiter not encountered yet
  _set_parser_defaults
  word_index=1

  # determine what arguments are appropriate for the current state
  # of the arg parser
  while [ $word_index -ne $COMP_CWORD ]; do
    local this_word="${COMP_WORDS[$word_index]}"

    if [[ $pos_only = 1 || " $this_word " != " -- " ]]; then
      if [[ -n $sub_parsers && " ${sub_parsers[@]} " == *" $this_word "* ]]; then
        # valid subcommand: add it to the prefix & reset the current action
        prefix="${prefix}_$(_shtab_replace_nonword $this_word)"
        _set_parser_defaults
      fi

      if [[ " ${current_option_strings[@]} " == *" $this_word "* ]]; then
        # a new action should be acquired (due to recognised option string or
        # no more input expected from current action);
        # the next positional action can fill in here
        _set_new_action $this_word false
      fi

      if [[ "$current_action_nargs" != "*" ]] && \
         [[ "$current_action_nargs" != "+" ]] && \
         [[ "$current_action_nargs" != "?" ]] && \
         [[ "$current_action_nargs" != *"..." ]] && \
         (( $word_index + 1 - $current_action_args_start_index - $pos_only >= \
            $current_action_nargs )); then
        $current_action_is_positional && let "completed_positional_actions += 1"
        _set_new_action "pos_$completed_positional_actions" true
      fi
    else
      pos_only=1 # "--" delimiter encountered
    fi

    let "word_index+=1"
  done

  # Generate the completions

  COMPREPLY=()
  if [[ $pos_only = 0 && "$completing_word" == -* &&
        ( -z "$current_action_compgen" || "$current_action_is_positional" = true ) ]]; then
    # optional argument started: use option strings
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
      compgen -W "${current_option_strings[*]}" -- "$completing_word")
  elif [[ "$previous_word" =~ ^[0-9\&]*[\<\>]\>?$ ]]; then
    # handle redirection operators
    compopt -o filenames 2>/dev/null || : # bash>=4
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$completing_word")
  else
    # use choices & compgen
    local action_compgen_word="$completing_word"
    # handle tab-completing in the middle of a line (#248 <- #116)
    [[ -n "$current_action_compgen" && "$completing_word" == -* ]] && action_compgen_word=""
    [ -n "$current_action_compgen" ] && {
      [[ "$current_action_compgen" =~ _(file|dir|glob|FILE|DIR|GLOB)|File|Dir|Glob ]] &&
        compopt -o filenames 2>/dev/null || : # bash>=4
      while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
        "$current_action_compgen" "$action_compgen_word")
    }
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
      compgen -W "${current_action_choices[*]}" -- "$completing_word")
  fi

  if [[ ${#COMPREPLY[@]} = 0 ]]; then
    # native fallback matches are not necessarily filenames (e.g. variables)
    compopt +o filenames 2>/dev/null || : # bash>=4
  fi

  return 0
}

complete -o bashdefault -F _shtab_asyncq asyncq
