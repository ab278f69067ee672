// graphile-worker: the newest release, by its library calls.
"use strict";
const { Logger, makeWorkerUtils, run: runWorker, runMigrations } = require("graphile-worker");
const role = require("./role.js");

const logger = new Logger(() => () => {});

async function install(connectionString) {
  await runMigrations({ connectionString, logger });
}

async function adder(connectionString, wish) {
  const utils = await makeWorkerUtils({ connectionString, logger, maxPoolSize: 10 });
  const many = (numbers, delayS) => {
    const runAt = delayS ? new Date(Date.now() + delayS * 1000) : undefined;
    const queueName = wish.shape === "serial" ? "one" : undefined;
    return utils.addJobs(numbers.map((id) => ({ identifier: "noop", payload: { id }, runAt, queueName })));
  };
  return { one: (id) => utils.addJob("noop", { id }), many };
}

async function work(connectionString, wish, note) {
  const concurrency = wish.options ? { concurrentJobs: wish.options.concurrency } : {};
  const preset = { worker: { connectionString, ...wish.preset, ...concurrency } };
  const taskList = { noop: async ({ id }) => note(id) };
  await runWorker({ preset, taskList, logger, noHandleSignals: true });
}

process.on("unhandledRejection", (error) => {
  throw error;
});
role.run({ install, adder, work });
