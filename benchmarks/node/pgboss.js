// pg-boss, by its library calls.
"use strict";
const role = require("./role.js");

const QUEUE = "noop";

async function open(connectionString, options) {
  const { PgBoss } = await import("pg-boss");
  const boss = new PgBoss({ connectionString, ...options });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  return boss;
}

async function install(connectionString, wish) {
  const boss = await open(connectionString, { supervise: false, schedule: false });
  await boss.createQueue(QUEUE, { notify: Boolean(wish.boss.useListenNotify) });
  await boss.stop();
}

async function adder(connectionString, wish) {
  const boss = await open(connectionString, { supervise: false, schedule: false });
  const many = (numbers, delayS) => {
    const more = delayS ? { startAfter: delayS } : {};
    return boss.insert(QUEUE, numbers.map((id) => ({ data: { id }, ...more })));
  };
  return { one: (id) => boss.send(QUEUE, { id }), many };
}

async function work(connectionString, wish, note) {
  const boss = await open(connectionString, wish.boss);
  const handle = async (jobs) => {
    for (const job of jobs) note(job.data.id);
  };
  await boss.work(QUEUE, wish.work, handle);
}

role.run({ install, adder, work });
