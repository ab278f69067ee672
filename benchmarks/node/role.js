// The same as benchmarks/peers/role.py, for the queues of Node: one JSON line on stdout for each thing, "go" and "stop"
// on stdin. It ends when stdin does.
"use strict";
const fs = require("node:fs");
const readline = require("node:readline");

const TICK_MS = 5;
const WARM_UP = 50;
const FILL_CHUNK = 1000;

console.log = console.error; // stdout is ours

const nowNs = () => Number(process.hrtime.bigint());
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const lines = readline.createInterface({ input: process.stdin });
const heard = [];
let waiting = null;
lines.on("line", (line) => (waiting ? waiting(line) : heard.push(line)));
lines.on("close", () => process.exit(1));

function say(kind, fields = {}) {
  let line = Buffer.from(JSON.stringify({ kind, ...fields }) + "\n");
  while (line.length) {
    try {
      line = line.subarray(fs.writeSync(1, line));
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

function hear() {
  if (heard.length) return Promise.resolve(heard.shift());
  return new Promise((resolve) => {
    waiting = (line) => {
      waiting = null;
      resolve(line);
    };
  });
}

async function awaitGo() {
  say("prepared");
  if ((await hear()) !== "go") process.exit(1);
}

const range = (first, end) => Array.from({ length: end - first }, (_, place) => first + place);

async function inParallel(adder, jobs, producers) {
  const produce = async (producer) => {
    for (let number = producer; number < jobs; number += producers) await adder.one(number);
  };
  await Promise.all(range(0, producers).map(produce));
}

async function fill(program, dsn, wish) {
  await program.install(dsn, wish);
  const { jobs, future = 0 } = wish;
  if (!(jobs + future)) return;
  const adder = await program.adder(dsn, wish);
  for (let first = 0; first < jobs; first += FILL_CHUNK)
    await adder.many(range(first, Math.min(first + FILL_CHUNK, jobs)), 0);
  for (let first = jobs; first < jobs + future; first += FILL_CHUNK)
    await adder.many(range(first, Math.min(first + FILL_CHUNK, jobs + future)), 86400);
}

async function add(program, dsn, wish) {
  const { jobs, chunk = 1, producers = 1 } = wish;
  const adder = await program.adder(dsn, wish);
  await inParallel(adder, WARM_UP, producers);
  await awaitGo();
  const began = nowNs();
  if (chunk === 1) await inParallel(adder, jobs, producers);
  else for (let first = 0; first < jobs; first += chunk) await adder.many(range(first, first + chunk), 0);
  say("added", { took_s: (nowNs() - began) / 1e9, warm_up: WARM_UP });
}

async function tell(program, dsn, wish) {
  const at = [];
  const adder = await program.adder(dsn, wish);
  await awaitGo();
  for (let number = 0; number < wish.jobs; number++) {
    at.push(nowNs());
    await adder.one(number);
    await pause(wish.pause_s * 1000);
  }
  say("sent", { at });
}

async function work(program, dsn, wish) {
  const ledger = { calls: 0, total: 0, first_ns: 0, starts: [] };
  const note = (number) => {
    if (!ledger.calls) ledger.first_ns = nowNs();
    ledger.calls++;
    ledger.total += number;
  };
  const stamp = (number) => {
    ledger.starts.push([number, nowNs()]);
    note(number);
  };
  await awaitGo();
  let said = 0;
  setInterval(() => {
    if (ledger.calls !== said) {
      said = ledger.calls;
      say("calls", { calls: said });
    }
  }, TICK_MS);
  await program.work(dsn, wish, wish.stamps ? stamp : note);
  await hear();
  say("report", ledger);
  process.exit(0);
}

async function run(program) {
  const [role, dsn, wish] = process.argv.slice(2);
  await { fill, add, tell, work }[role](program, dsn, JSON.parse(wish));
  say("done");
  process.exit(0);
}

module.exports = { run };
