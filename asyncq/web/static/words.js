// The sentences of the page.

export const STATES = ["available", "active", "scheduled", "retryable", "pending", "cancelled", "discarded"];

// The choices of jobs that have ended and are kept, with the state that the history knows them by.
export const ENDED = { ended: "", "ended as completed": "completed", "ended as cancelled": "cancelled" };

export const STATE_WORDS = {
  available: "due, waits for a free slot",
  active: "a worker runs it",
  scheduled: "waits for its time",
  retryable: "failed, waits for its retry",
  pending: "waits for other jobs",
  cancelled: "cancelled, its handler still runs",
  discarded: "failed for good",
  completed: "ended well",
};

// A short heading for each reason of `explain`; the server's sentence stands behind it.
export const REASONS = {
  ready: "Ready",
  running: "Running",
  last_attempt: "This is its last attempt",
  not_due: "Waits for its time",
  pending: "Waits for other jobs",
  blocked: "A job that it waits for has failed",
  expired: "Expired",
  discarded: "Failed for good",
  cancelled: "Cancelled",
  ended: "Ended",
  queue_busy: "Its queue is busy",
  queue_behind: "Others of its queue come first",
  forbidden_flag: "Its flags are forbidden",
  no_worker: "No worker is alive",
  unknown_task: "No live worker knows its task",
  not_chosen: "No live worker takes its queue or limit",
  paused: "Paused",
  partition_full: "Its limit is reached",
  partition_behind: "Others of its key come first",
  rate: "Its rate is used up",
  backed_off: "Its key backs off",
  moving: "It is moved to its limit",
};

export const ACTIONS = {
  retry: { label: "Retry", done: "retried" },
  cancel: { label: "Cancel", done: "cancelled" },
  reschedule: { label: "Run now", done: "made due now" },
  complete: { label: "Mark completed", done: "marked as completed" },
  fail: { label: "Mark failed", done: "marked as failed" },
  remove: { label: "Remove", done: "removed" },
};

export const RIGHT_OF = {
  retry: "change", cancel: "cancel", reschedule: "change", complete: "change", fail: "change", remove: "remove",
};

// A job that has failed for good is not due: its time is that of a retry which it does not get.
export const dueOf = ({ state, run_at }) => (state === "discarded" ? null : run_at);

// The actions that each state allows; an action that a job does not allow is not offered.
const ALLOWED = {
  available: ["cancel", "complete", "fail"],
  active: ["cancel"],
  scheduled: ["reschedule", "cancel", "complete", "fail"],
  retryable: ["retry", "cancel", "complete", "fail"],
  pending: ["cancel", "complete", "fail"],
  cancelled: [],
  discarded: ["retry", "complete"],
  completed: ["remove"],
};

// A job that was cancelled may still run, and has no end then.
export const allowed = ({ state, ended_at }) => ALLOWED[state === "cancelled" && ended_at ? "completed" : state];

export const HELP = [
  ["o", "overview"], ["j", "jobs"], ["t", "tasks"], ["q", "queues"], ["l", "limits"], ["c", "cron"], ["w", "workers"],
  ["b", "bulk operations"], ["/", "search"], ["?", "this help"], ["Esc", "close a dialog"],
];
