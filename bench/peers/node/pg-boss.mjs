// pg-boss with one queue whose worker sends the jobs' data on:
//
//   node pg-boss.mjs CONNECTION setup          prints the statement by which send() adds jobs
//   node pg-boss.mjs CONNECTION TARGET SETTINGS
//
// SETTINGS are the options of work(), as JSON.
import { PgBoss } from "pg-boss";
import { deliverer, untilTerminated } from "./deliver.mjs";

const [connectionString, target, settings] = process.argv.slice(2);
const boss = new PgBoss({ connectionString, useListenNotify: true });
boss.on("error", (error) => console.error(error));

// send() hands its statement to the transaction of the application that it is given.
async function printStatement() {
  const db = {
    async executeSql(text) {
      console.log(JSON.stringify(text));
      return { rows: [{ id: "" }] };
    },
  };
  await boss.send("deliver", {}, { db });
}

async function work() {
  const options = JSON.parse(settings);
  const destination = deliverer(target, options.batchSize * (options.localConcurrency ?? 1));
  await boss.work("deliver", options, (jobs) =>
    Promise.all(jobs.map((job) => destination.send(job.id, JSON.stringify(job.data)))));
  await untilTerminated();
  await boss.offWork("deliver");
  await boss.stop({ graceful: false });
  await destination.close();
}

await boss.start();
if (target === "setup") {
  await boss.createQueue("deliver", { notify: true });
  await printStatement();
} else await work();
process.exit(0);
