#compdef asyncq
# Made by shtab out of the parser of asyncq: python3 tools/x.py completion
_shtab_asyncq_commands() {
  local _commands=(
    add:'Add a job, and print its id.'
    cleanup:'Remove data that is no longer needed; safe while adds and workers run.'
    completion:'Print a script that completes commands and options in a shell.'
    config:'Show the settings, and where each one is from.'
    cron:'List recurring items, and change them.'
    dashboard:'Serve the dashboard: jobs, workers, recurring items, limits.'
    dev:'Run all that you need while you write tasks.'
    doctor:'Check that the store is consistent, and repair what can be repaired.'
    jobs:'List jobs, and change them.'
    limit:'Set values of a limit by hand, in place of those that workers declare.'
    limits:'Print the limits, a line for each.'
    metrics:'Print the metrics of the store in the text format of Prometheus.'
    migrate:'Install asyncq'"'"'s schema, or upgrade it.'
    partitions:'Print the keys of a limit, a line for each: those with most running jobs first.'
    pause:'Pause a task, a queue, a limit, a key of a limit, or everything.'
    probe:'Ask workers with --http whether they are well.'
    queues:'Print how many jobs the fullest queues have, a line for each.'
    resume:'Resume what was paused.'
    roles:'Grant two roles the rights that they need, and no others.'
    stats:'Print how many runs of each task ended, and how long they took and waited.'
    tasks:'Print each task that has jobs or workers, a line for each.'
    top:'Print what goes on: jobs by state, workers, what runs, what fails, and the tasks'
    worker:'Run jobs until SIGTERM or Ctrl-C.'
    workers:'Look at workers, and return their jobs.'
  )
  _describe 'asyncq commands' _commands
}

_shtab_asyncq_cron_commands() {
  local _commands=(
    add:'Store a recurring item: from now on workers that know its task add its jobs.'
    change:'Change a stored item.'
    ls:'Print the recurring items: stored ones, and those in crontabs of workers.'
    next:'Print when items are due next, each in its own time zone.'
    pause:'Pause a stored item, or one of a crontab, until it is resumed.'
    resume:'Resume an item.'
    rm:'Remove a stored item, or forget one that no crontab has any more.'
    run:'Add the job of an item now, also of a paused one, and print its id.'
  )
  _describe 'asyncq cron commands' _commands
}

_shtab_asyncq_jobs_commands() {
  local _commands=(
    cancel:'Cancel jobs: waiting jobs end, running ones are cancelled in their worker.'
    complete:'End jobs as completed without running them.'
    counts:'Print how many jobs are in each state.'
    discard:'Discard jobs without running them.'
    explain:'Print why a job does not run: its time, its queue, its flags, its task.'
    fail:'Discard jobs without running them.'
    ls:'Print a page of jobs, the newest first.'
    redact:'Blank the payloads, results and meta of jobs that have ended.'
    reschedule:'Change when jobs run, their priority, and their attempts.'
    retry:'Retry failed and discarded jobs.'
    rm:'Remove the job that has a key, or all jobs that options choose.'
    show:'Print a job: its state, its attempts, its limits, its last error, its payload.'
    wait:'Wait until a job has ended, and print its end as one JSON object.'
  )
  _describe 'asyncq jobs commands' _commands
}

_shtab_asyncq_workers_commands() {
  local _commands=(
    ls:'Print the workers, a line for each.'
    unlock:'Return the jobs of workers at once, and print the ids of these jobs.'
  )
  _describe 'asyncq workers commands' _commands
}

_shtab_asyncq_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--version[print the version and exit]"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_defaults_added=0

_shtab_asyncq_add_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--queue[the queue\; its jobs run one after the other]:NAME:"
  "--run-at[not before, such as 2030-01-31T04\:00\:00Z]:TIME:"
  "--in[not before this time has passed\: 90s, 5m, 2h]:TIME:"
  "--max-attempts[attempts in all (default\: 25)]:N:"
  "--priority[lower first (default\: 0)]:N:"
  "*--flag[a name that a worker may forbid\; may be repeated]:FLAG:"
  "--meta[an object that is stored with the job]:JSON:"
  "--job-key[at most one waiting or running job has it\; a waiting one is changed]:KEY:"
  "--job-key-mode[which fields of a waiting job are kept (default\: replace)]:job_key_mode:(replace preserve_run_at unsafe_dedupe)"
  "--unique[a unique policy, as an object\: which other jobs prevent this one]:JSON:"
  "--singleton[at most one job of the task waits or runs]"
  "--subject[with --singleton\: at most one job for each subject]:TEXT:"
  "--force[add the job in spite of its policy]"
  "--rerun[if the other job runs, run it once more afterwards]"
  "--idempotency-key[a name of this request\; repeated within a day, it adds nothing]:KEY:"
  "--timeout[the time limit of one attempt\: 90s, 5m, 2h]:TIME:"
  "--soft-timeout[after this time its handler is asked to end]:TIME:"
  "--expires[until when it may start, else it is cancelled\: 5m, or a time]:TIME:"
  "--deadline[until when all its attempts have to end]:TIME:"
  "--keep[how long it is kept after its end\: 5m, 7d, or never]:TIME:"
  "*--after[a job that has to end first\; may be repeated]:ID:"
  "--if-failed[with --after\: if one of these fails for good (default\: wait)]:if_failed:(wait cancel run)"
  "--json[print one JSON object\: id, outcome, existing_id, existing_state]"
  ":the task\'s name:"
  ":the payload as JSON (default\: \{\}):"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_add_defaults_added=0

_shtab_asyncq_cleanup_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "*--keep[keep the name of this task\; may be repeated]:TASK:"
  "--json[print one JSON object]"
  "(*)::what to remove\: the words above:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_cleanup_defaults_added=0

_shtab_asyncq_completion_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  ":the shell\: bash, zsh or fish:(bash zsh fish)"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_completion_defaults_added=0

_shtab_asyncq_config_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--json[print one JSON object\: a value and a source by each name]"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_config_defaults_added=0

_shtab_asyncq_cron_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_cron_defaults_added=0

_shtab_asyncq_cron_add_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--dialect[the syntax of LINE (default\: extended)]:dialect:(extended crontab)"
  "--json[print one JSON object\: the result]"
  ":when, the task, \?options, a \{payload\}:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_cron_add_defaults_added=0

_shtab_asyncq_cron_change_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--expression[when\: five fields, or a word such as \@daily]:EXPRESSION:"
  "--task[the task]:NAME:"
  "--tz[the time zone of the expression]:ZONE:"
  "--queue[the queue of its jobs]:NAME:"
  "--job-key[a key for its jobs]:KEY:"
  "--payload[the payload, an object]:JSON:"
  "--dialect[the syntax of the expression]:dialect:(extended crontab)"
  "--fill[add missed slots of this time back\: 3d12h]:TIME:"
  "--overlap[what happens to a slot while the last job runs]:overlap:(allow skip replace)"
  "--max-attempts[attempts in all]:N:"
  "--priority[lower first]:N:"
  "*--flag[a flag of its jobs\; replaces the flags it has]:FLAG:"
  "--job-key-mode[which fields of a waiting job are kept]:job_key_mode:(replace preserve_run_at unsafe_dedupe)"
  "*--unset[one of tz, queue, job-key, payload, dialect, fill, overlap, max-attempts, priority, flags, job-key-mode]:FIELD:(tz queue job-key payload dialect fill overlap max-attempts priority flags job-key-mode)"
  "--json[print one JSON object\: the result]"
  ":the item\'s identifier:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_cron_change_defaults_added=0

_shtab_asyncq_cron_ls_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--json[print one JSON object a line, with the payload in it]"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_cron_ls_defaults_added=0

_shtab_asyncq_cron_next_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--expression[five fields, or a word such as \@daily, instead of an item]:EXPRESSION:"
  "--tz[the time zone of the expression (default\: UTC)]:ZONE:"
  "--dialect[how the expression is written (default\: extended)]:dialect:(extended crontab)"
  "--count[how many times, at most 1000 (default\: 10)]:N:"
  ":the identifier of an item (default\: all items):"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_cron_next_defaults_added=0

_shtab_asyncq_cron_pause_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--json[print one JSON object\: the result]"
  ":the item\'s identifier:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_cron_pause_defaults_added=0

_shtab_asyncq_cron_resume_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--json[print one JSON object\: the result]"
  ":the item\'s identifier:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_cron_resume_defaults_added=0

_shtab_asyncq_cron_rm_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--json[print one JSON object\: the result]"
  ":the item\'s identifier:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_cron_rm_defaults_added=0

_shtab_asyncq_cron_run_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--json[print one JSON object\: the result]"
  ":the item\'s identifier:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_cron_run_defaults_added=0

_shtab_asyncq_dashboard_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--host[the address to listen on (default\: 127.0.0.1)]:host:"
  "--port[the port\; 0 is any free one (default\: 8080)]:port:"
  "--read-only[allow no changes]"
  "--hide-payloads[show no payloads, results and meta]"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_dashboard_defaults_added=0

_shtab_asyncq_dev_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--tasks[a folder, or module\:name (default\: .\/tasks, if it exists)]:WHAT:"
  {-j,--concurrency}"[jobs at once (default\: 10)]:N:"
  "--crontab[recurring jobs (default\: the file crontab beside the folder of tasks)]:FILE:"
  "--port[the port of the dashboard\; 0 is any free one (default\: 8080)]:port:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_dev_defaults_added=0

_shtab_asyncq_doctor_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--repair[first return orphan claims, and remove unused key locks]"
  "--json[print one JSON object]"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_doctor_defaults_added=0

_shtab_asyncq_jobs_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_jobs_defaults_added=0

_shtab_asyncq_jobs_cancel_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--state[only jobs in this state]:state:(scheduled available active retryable pending cancelled discarded)"
  "--task[only jobs of this task]:NAME:"
  "--queue[only jobs of this queue]:NAME:"
  "--flag[only jobs with this flag]:FLAG:"
  "--key[only the job with this key]:KEY:"
  "--has[only jobs whose payload contains this\: \'\{\"user\"\: 7\}\']:JSON:"
  "--error[only jobs whose last error contains this, in any case of letters]:TEXT:"
  "--due-before[only jobs that were due before\: 1h ago, or a time]:TIME:"
  "--added-after[only jobs that were added since\: 1h ago, or a time]:TIME:"
  "--dry-run[say how many jobs match, and change none]"
  "--yes[do not ask]"
  "--json[print one JSON object a line\: the jobs that were changed]"
  "(*)::the jobs\' ids:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_jobs_cancel_defaults_added=0

_shtab_asyncq_jobs_complete_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--state[only jobs in this state]:state:(scheduled available active retryable pending cancelled discarded)"
  "--task[only jobs of this task]:NAME:"
  "--queue[only jobs of this queue]:NAME:"
  "--flag[only jobs with this flag]:FLAG:"
  "--key[only the job with this key]:KEY:"
  "--has[only jobs whose payload contains this\: \'\{\"user\"\: 7\}\']:JSON:"
  "--error[only jobs whose last error contains this, in any case of letters]:TEXT:"
  "--due-before[only jobs that were due before\: 1h ago, or a time]:TIME:"
  "--added-after[only jobs that were added since\: 1h ago, or a time]:TIME:"
  "--dry-run[say how many jobs match, and change none]"
  "--yes[do not ask]"
  "--json[print one JSON object a line\: the jobs that were changed]"
  "(*)::the jobs\' ids:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_jobs_complete_defaults_added=0

_shtab_asyncq_jobs_counts_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--exact[count large tables exactly, however long it takes]"
  "--json[print one JSON object]"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_jobs_counts_defaults_added=0

_shtab_asyncq_jobs_discard_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--state[only jobs in this state]:state:(scheduled available active retryable pending cancelled discarded)"
  "--task[only jobs of this task]:NAME:"
  "--queue[only jobs of this queue]:NAME:"
  "--flag[only jobs with this flag]:FLAG:"
  "--key[only the job with this key]:KEY:"
  "--has[only jobs whose payload contains this\: \'\{\"user\"\: 7\}\']:JSON:"
  "--error[only jobs whose last error contains this, in any case of letters]:TEXT:"
  "--due-before[only jobs that were due before\: 1h ago, or a time]:TIME:"
  "--added-after[only jobs that were added since\: 1h ago, or a time]:TIME:"
  "--dry-run[say how many jobs match, and change none]"
  "--yes[do not ask]"
  "--json[print one JSON object a line\: the jobs that were changed]"
  "--message[the last error (default\: Manually marked as failed)]:TEXT:"
  "(*)::the jobs\' ids:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_jobs_discard_defaults_added=0

_shtab_asyncq_jobs_explain_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--json[print one JSON object\: job_id, runnable, reasons]"
  ":the job\'s id:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_jobs_explain_defaults_added=0

_shtab_asyncq_jobs_fail_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--state[only jobs in this state]:state:(scheduled available active retryable pending cancelled discarded)"
  "--task[only jobs of this task]:NAME:"
  "--queue[only jobs of this queue]:NAME:"
  "--flag[only jobs with this flag]:FLAG:"
  "--key[only the job with this key]:KEY:"
  "--has[only jobs whose payload contains this\: \'\{\"user\"\: 7\}\']:JSON:"
  "--error[only jobs whose last error contains this, in any case of letters]:TEXT:"
  "--due-before[only jobs that were due before\: 1h ago, or a time]:TIME:"
  "--added-after[only jobs that were added since\: 1h ago, or a time]:TIME:"
  "--dry-run[say how many jobs match, and change none]"
  "--yes[do not ask]"
  "--json[print one JSON object a line\: the jobs that were changed]"
  "--message[the last error (default\: Manually marked as failed)]:TEXT:"
  "(*)::the jobs\' ids:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_jobs_fail_defaults_added=0

_shtab_asyncq_jobs_ls_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--state[only jobs in this state]:state:(scheduled available active retryable pending cancelled discarded completed)"
  "--task[only jobs of this task]:NAME:"
  "--queue[only jobs of this queue]:NAME:"
  "--flag[only jobs with this flag]:FLAG:"
  "--key[only the job with this key]:KEY:"
  "--has[only jobs whose payload contains this\: \'\{\"user\"\: 7\}\']:JSON:"
  "--error[only jobs whose last error contains this, in any case of letters]:TEXT:"
  "--due-before[only jobs that were due before\: 1h ago, or a time]:TIME:"
  "--added-after[only jobs that were added since\: 1h ago, or a time]:TIME:"
  "--oldest[the oldest first, in the order of their ids]"
  "--limit[how many at most, up to 1000 (default\: 50)]:N:"
  "--from[begin behind this id]:ID:"
  "--ended[print jobs that have ended and are kept, and discarded ones]"
  "--since[with --ended\: only jobs that ended since\: 1h ago, or a time]:TIME:"
  "--before[with --ended\: only jobs with a smaller id]:ID:"
  "--json[print one JSON object a line, with the payload in it]"
  "--all[print all jobs, page by page (--limit is the size of a page)\; needs --json]"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_jobs_ls_defaults_added=0

_shtab_asyncq_jobs_redact_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "(*):the jobs\' ids:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_jobs_redact_defaults_added=0

_shtab_asyncq_jobs_reschedule_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--state[only jobs in this state]:state:(scheduled available active retryable pending cancelled discarded)"
  "--task[only jobs of this task]:NAME:"
  "--queue[only jobs of this queue]:NAME:"
  "--flag[only jobs with this flag]:FLAG:"
  "--key[only the job with this key]:KEY:"
  "--has[only jobs whose payload contains this\: \'\{\"user\"\: 7\}\']:JSON:"
  "--error[only jobs whose last error contains this, in any case of letters]:TEXT:"
  "--due-before[only jobs that were due before\: 1h ago, or a time]:TIME:"
  "--added-after[only jobs that were added since\: 1h ago, or a time]:TIME:"
  "--dry-run[say how many jobs match, and change none]"
  "--yes[do not ask]"
  "--json[print one JSON object a line\: the jobs that were changed]"
  "--now[due at once]"
  "--run-at[not before, such as 2030-01-31T04\:00\:00Z]:TIME:"
  "--in[not before this time has passed\: 90s, 5m, 2h]:TIME:"
  "--priority[lower first]:N:"
  "--attempts[failed attempts]:N:"
  "--max-attempts[attempts in all]:N:"
  "(*)::the jobs\' ids:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_jobs_reschedule_defaults_added=0

_shtab_asyncq_jobs_retry_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--state[only jobs in this state]:state:(scheduled available active retryable pending cancelled discarded)"
  "--task[only jobs of this task]:NAME:"
  "--queue[only jobs of this queue]:NAME:"
  "--flag[only jobs with this flag]:FLAG:"
  "--key[only the job with this key]:KEY:"
  "--has[only jobs whose payload contains this\: \'\{\"user\"\: 7\}\']:JSON:"
  "--error[only jobs whose last error contains this, in any case of letters]:TEXT:"
  "--due-before[only jobs that were due before\: 1h ago, or a time]:TIME:"
  "--added-after[only jobs that were added since\: 1h ago, or a time]:TIME:"
  "--dry-run[say how many jobs match, and change none]"
  "--yes[do not ask]"
  "--json[print one JSON object a line\: the jobs that were changed]"
  "(*)::the jobs\' ids:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_jobs_retry_defaults_added=0

_shtab_asyncq_jobs_rm_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--state[only jobs in this state]:state:(scheduled available active retryable pending cancelled discarded)"
  "--task[only jobs of this task]:NAME:"
  "--queue[only jobs of this queue]:NAME:"
  "--flag[only jobs with this flag]:FLAG:"
  "--key[only the job with this key]:KEY:"
  "--has[only jobs whose payload contains this\: \'\{\"user\"\: 7\}\']:JSON:"
  "--error[only jobs whose last error contains this, in any case of letters]:TEXT:"
  "--due-before[only jobs that were due before\: 1h ago, or a time]:TIME:"
  "--added-after[only jobs that were added since\: 1h ago, or a time]:TIME:"
  "--dry-run[say how many jobs match, and change none]"
  "--yes[do not ask]"
  "--ended[remove jobs that have ended, by their ids]"
  "--json[print one JSON object\: the job]"
  "(*)::the job\'s key\; with --ended the ids of ended jobs:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_jobs_rm_defaults_added=0

_shtab_asyncq_jobs_show_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--json[print one JSON object, with payload and errors in it]"
  ":the job\'s id:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_jobs_show_defaults_added=0

_shtab_asyncq_jobs_wait_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--timeout[how long at most (default\: without end)]:TIME:"
  ":the job\'s id:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_jobs_wait_defaults_added=0

_shtab_asyncq_limit_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--key[only for this key of the limit]:KEY:"
  "--at-once[how many jobs of each key at once]:NUMBER:"
  "--rate[how many jobs of each key may start\: 100\/1m]:RATE:"
  "--total[how many jobs of all keys at once]:NUMBER:"
  "--total-rate[how many jobs of all keys may start]:RATE:"
  "--weight[how many turns the key gets beside others]:NUMBER:"
  "--unset[undo what was set\: what workers declare holds again]"
  "--remove[end it, and all that was set, until a worker declares it again]"
  "--by[who (default\: the role that logs in)]:NAME:"
  "--json[print one JSON object\: the limit]"
  ":the name of a limit, or of a queue:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_limit_defaults_added=0

_shtab_asyncq_limits_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--json[print one JSON object a line\: a limit]"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_limits_defaults_added=0

_shtab_asyncq_metrics_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--http[serve them there (default\: print them)]:HOST:PORT:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_metrics_defaults_added=0

_shtab_asyncq_migrate_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--check[change nothing\; exit code 3 if migrations are pending]"
  "--json[print one JSON object\: schema, version, newest, applied, pending, breaking]"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_migrate_defaults_added=0

_shtab_asyncq_partitions_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--most[how many keys (default\: 100)]:NUMBER:"
  "--json[print one JSON object a line\: a key]"
  ":the name of a limit, or of a queue:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_partitions_defaults_added=0

_shtab_asyncq_pause_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--task[a task]:NAME:"
  "--queue[a queue]:NAME:"
  "--limit[a limit\: all its jobs, or those of --key]:NAME:"
  "--key[a key of the limit]:KEY:"
  "--all[everything]"
  "--reason[why]:TEXT:"
  "--by[who (default\: the role that logs in)]:NAME:"
  "--json[print one JSON object a line\: a pause]"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_pause_defaults_added=0

_shtab_asyncq_probe_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "(*)::a page of a worker (default\: http\:\/\/127.0.0.1\:8081\/healthz):"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_probe_defaults_added=0

_shtab_asyncq_queues_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--most[how many at most (default\: 50)]:N:"
  "--json[print one JSON object a line\: a queue]"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_queues_defaults_added=0

_shtab_asyncq_resume_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--task[a task]:NAME:"
  "--queue[a queue]:NAME:"
  "--limit[a limit\: all its jobs, or those of --key]:NAME:"
  "--key[a key of the limit]:KEY:"
  "--all[everything]"
  "--reason[why]:TEXT:"
  "--by[who (default\: the role that logs in)]:NAME:"
  "--json[print one JSON object a line\: a pause]"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_resume_defaults_added=0

_shtab_asyncq_roles_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--worker[the role that runs jobs]:ROLE:"
  "--enqueuer[the role that only adds jobs]:ROLE:"
  "--monitor[the role that reads numbers]:ROLE:"
  "--apply[run the SQL in one transaction instead of printing it]"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_roles_defaults_added=0

_shtab_asyncq_stats_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--since[1h ago (default), or a time]:TIME:"
  "--step[the length of a step (default\: all is one)]:TIME:"
  "--task[only this task]:NAME:"
  "--json[print one JSON object a line]"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_stats_defaults_added=0

_shtab_asyncq_tasks_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--json[print one JSON object a line\: a task]"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_tasks_defaults_added=0

_shtab_asyncq_top_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--once[print once, and end]"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_top_defaults_added=0

_shtab_asyncq_worker_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--tasks[a folder, or module\:name (default\: .\/tasks, if it exists)]:WHAT:"
  "--once[run due jobs, and jobs that become due meanwhile, then end]"
  {-j,--concurrency}"[jobs at once (default\: 10)]:N:"
  "--processes[run N workers, and start one again that ends by itself]:N:"
  "--reload[start again when the code or the crontab changes]"
  "--task-processes[processes at once for tasks with run_in\=\'process\' (default\: one for each CPU)]:N:"
  "--poll[how long an idle worker sleeps between two fetches (default\: 2s)]:TIME:"
  "--lease[how long without a heartbeat until other workers take over (default\: 30s)]:TIME:"
  "--grace[how long running jobs may continue after a signal (default\: 25s)]:TIME:"
  "--discarded-retention[how long discarded jobs are kept\; never\: they are not removed (default\: 30d)]:TIME:"
  "--error-retention[how long failed attempts are kept\; none\: they are not recorded (default\: 7d)]:TIME:"
  "--keep[how long ended jobs are kept, of tasks that do not say it (default\: not)]:TIME:"
  "--no-listen[only poll, for a pooler without LISTEN]"
  "--no-stats[do not write numbers over time]"
  "--listen-dsn[the database for LISTEN\: the server itself, if --dsn is a pooler]:DSN:"
  "*--forbid[do not run jobs with this flag\; may be repeated]:FLAG:"
  "--queues[run only jobs of these queues and limits, with commas between\; NAME\:N\: at most N at once\; and jobs of none]:NAME[:N],...:"
  "--exclude[run no jobs of these queues and limits]:NAME,...:"
  "--crontab[recurring jobs (default\: the file crontab beside the folder of tasks)]:FILE:"
  "--migrate[upgrade the schema first]"
  "--http[answer probes and show metrics there (default\: not)]:HOST:PORT:"
  "--unhealthy-after[how long the event loop may be blocked until \/healthz says so (default\: 30s)]:TIME:"
  "--lifespan[a context manager around the worker (default\: worker_lifespan in the module of --tasks)]:MODULE:NAME:"
  "--codec[decodes payloads that clients have encoded (default\: worker_codec in the module of --tasks)]:MODULE:NAME:"
  "--log-format[text (default), or one JSON object a line]:log_format:(text json)"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_worker_defaults_added=0

_shtab_asyncq_workers_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_workers_defaults_added=0

_shtab_asyncq_workers_ls_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--json[print one JSON object a line\: a worker]"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_workers_ls_defaults_added=0

_shtab_asyncq_workers_unlock_options=(
  "(- : *)"{-h,--help}"[show this help message and exit]"
  "--dsn[the database, as postgresql\:\/\/user\@host\/name\; a password in it can be seen by other users of the machine]:DSN:"
  "--schema[the schema of the tables (default\: asyncq)]:NAME:"
  "--log-level[(default\: info)\; debug also shows the traceback of an error]:log_level:(debug info warning error)"
  "--silent-for[all workers that were silent for this long\: 90s, 4h]:TIME:"
  "--json[print one JSON object a line\: a job]"
  "(*)::the workers\' ids:"
)

# guard to ensure default positional specs are added only once per session
_shtab_asyncq_workers_unlock_defaults_added=0


_shtab_asyncq() {
  local context state line curcontext="$curcontext" one_or_more='(*)' remainder='(-)*:' default='*::: :->asyncq'

  # Add default positional/remainder specs only if none exist, and only once per session
  if (( ! _shtab_asyncq_defaults_added )); then
    if (( ${_shtab_asyncq_options[(I)${(q)one_or_more}*]} +          ${_shtab_asyncq_options[(I)${(q)remainder}*]} +          ${_shtab_asyncq_options[(I)${(q)default}]} == 0 )); then
      _shtab_asyncq_options+=(': :_shtab_asyncq_commands' '*::: :->asyncq')
    fi
    _shtab_asyncq_defaults_added=1
  fi
  _arguments -C -s $_shtab_asyncq_options

  case $state in
    asyncq)
      words=($line[1] "${words[@]}")
      (( CURRENT += 1 ))
      curcontext="${curcontext%:*:*}:_shtab_asyncq-$line[1]:"
      case $line[1] in
        add) _arguments -C -s $_shtab_asyncq_add_options ;;
        cleanup) _arguments -C -s $_shtab_asyncq_cleanup_options ;;
        completion) _arguments -C -s $_shtab_asyncq_completion_options ;;
        config) _arguments -C -s $_shtab_asyncq_config_options ;;
        cron) _shtab_asyncq_cron ;;
        dashboard) _arguments -C -s $_shtab_asyncq_dashboard_options ;;
        dev) _arguments -C -s $_shtab_asyncq_dev_options ;;
        doctor) _arguments -C -s $_shtab_asyncq_doctor_options ;;
        jobs) _shtab_asyncq_jobs ;;
        limit) _arguments -C -s $_shtab_asyncq_limit_options ;;
        limits) _arguments -C -s $_shtab_asyncq_limits_options ;;
        metrics) _arguments -C -s $_shtab_asyncq_metrics_options ;;
        migrate) _arguments -C -s $_shtab_asyncq_migrate_options ;;
        partitions) _arguments -C -s $_shtab_asyncq_partitions_options ;;
        pause) _arguments -C -s $_shtab_asyncq_pause_options ;;
        probe) _arguments -C -s $_shtab_asyncq_probe_options ;;
        queues) _arguments -C -s $_shtab_asyncq_queues_options ;;
        resume) _arguments -C -s $_shtab_asyncq_resume_options ;;
        roles) _arguments -C -s $_shtab_asyncq_roles_options ;;
        stats) _arguments -C -s $_shtab_asyncq_stats_options ;;
        tasks) _arguments -C -s $_shtab_asyncq_tasks_options ;;
        top) _arguments -C -s $_shtab_asyncq_top_options ;;
        worker) _arguments -C -s $_shtab_asyncq_worker_options ;;
        workers) _shtab_asyncq_workers ;;
      esac
  esac
}

_shtab_asyncq_cron() {
  local context state line curcontext="$curcontext" one_or_more='(*)' remainder='(-)*:' default='*::: :->cron'

  # Add default positional/remainder specs only if none exist, and only once per session
  if (( ! _shtab_asyncq_cron_defaults_added )); then
    if (( ${_shtab_asyncq_cron_options[(I)${(q)one_or_more}*]} +          ${_shtab_asyncq_cron_options[(I)${(q)remainder}*]} +          ${_shtab_asyncq_cron_options[(I)${(q)default}]} == 0 )); then
      _shtab_asyncq_cron_options+=(': :_shtab_asyncq_cron_commands' '*::: :->cron')
    fi
    _shtab_asyncq_cron_defaults_added=1
  fi
  _arguments -C -s $_shtab_asyncq_cron_options

  case $state in
    cron)
      words=($line[1] "${words[@]}")
      (( CURRENT += 1 ))
      curcontext="${curcontext%:*:*}:_shtab_asyncq_cron-$line[1]:"
      case $line[1] in
        add) _arguments -C -s $_shtab_asyncq_cron_add_options ;;
        change) _arguments -C -s $_shtab_asyncq_cron_change_options ;;
        ls) _arguments -C -s $_shtab_asyncq_cron_ls_options ;;
        next) _arguments -C -s $_shtab_asyncq_cron_next_options ;;
        pause) _arguments -C -s $_shtab_asyncq_cron_pause_options ;;
        resume) _arguments -C -s $_shtab_asyncq_cron_resume_options ;;
        rm) _arguments -C -s $_shtab_asyncq_cron_rm_options ;;
        run) _arguments -C -s $_shtab_asyncq_cron_run_options ;;
      esac
  esac
}

_shtab_asyncq_jobs() {
  local context state line curcontext="$curcontext" one_or_more='(*)' remainder='(-)*:' default='*::: :->jobs'

  # Add default positional/remainder specs only if none exist, and only once per session
  if (( ! _shtab_asyncq_jobs_defaults_added )); then
    if (( ${_shtab_asyncq_jobs_options[(I)${(q)one_or_more}*]} +          ${_shtab_asyncq_jobs_options[(I)${(q)remainder}*]} +          ${_shtab_asyncq_jobs_options[(I)${(q)default}]} == 0 )); then
      _shtab_asyncq_jobs_options+=(': :_shtab_asyncq_jobs_commands' '*::: :->jobs')
    fi
    _shtab_asyncq_jobs_defaults_added=1
  fi
  _arguments -C -s $_shtab_asyncq_jobs_options

  case $state in
    jobs)
      words=($line[1] "${words[@]}")
      (( CURRENT += 1 ))
      curcontext="${curcontext%:*:*}:_shtab_asyncq_jobs-$line[1]:"
      case $line[1] in
        cancel) _arguments -C -s $_shtab_asyncq_jobs_cancel_options ;;
        complete) _arguments -C -s $_shtab_asyncq_jobs_complete_options ;;
        counts) _arguments -C -s $_shtab_asyncq_jobs_counts_options ;;
        discard) _arguments -C -s $_shtab_asyncq_jobs_discard_options ;;
        explain) _arguments -C -s $_shtab_asyncq_jobs_explain_options ;;
        fail) _arguments -C -s $_shtab_asyncq_jobs_fail_options ;;
        ls) _arguments -C -s $_shtab_asyncq_jobs_ls_options ;;
        redact) _arguments -C -s $_shtab_asyncq_jobs_redact_options ;;
        reschedule) _arguments -C -s $_shtab_asyncq_jobs_reschedule_options ;;
        retry) _arguments -C -s $_shtab_asyncq_jobs_retry_options ;;
        rm) _arguments -C -s $_shtab_asyncq_jobs_rm_options ;;
        show) _arguments -C -s $_shtab_asyncq_jobs_show_options ;;
        wait) _arguments -C -s $_shtab_asyncq_jobs_wait_options ;;
      esac
  esac
}

_shtab_asyncq_workers() {
  local context state line curcontext="$curcontext" one_or_more='(*)' remainder='(-)*:' default='*::: :->workers'

  # Add default positional/remainder specs only if none exist, and only once per session
  if (( ! _shtab_asyncq_workers_defaults_added )); then
    if (( ${_shtab_asyncq_workers_options[(I)${(q)one_or_more}*]} +          ${_shtab_asyncq_workers_options[(I)${(q)remainder}*]} +          ${_shtab_asyncq_workers_options[(I)${(q)default}]} == 0 )); then
      _shtab_asyncq_workers_options+=(': :_shtab_asyncq_workers_commands' '*::: :->workers')
    fi
    _shtab_asyncq_workers_defaults_added=1
  fi
  _arguments -C -s $_shtab_asyncq_workers_options

  case $state in
    workers)
      words=($line[1] "${words[@]}")
      (( CURRENT += 1 ))
      curcontext="${curcontext%:*:*}:_shtab_asyncq_workers-$line[1]:"
      case $line[1] in
        ls) _arguments -C -s $_shtab_asyncq_workers_ls_options ;;
        unlock) _arguments -C -s $_shtab_asyncq_workers_unlock_options ;;
      esac
  esac
}



typeset -A opt_args

if [[ $zsh_eval_context[-1] == eval ]]; then
  # eval/source/. command, register function for later
  compdef _shtab_asyncq -N asyncq
else
  # autoload from fpath, call function directly
  _shtab_asyncq "$@"
fi
