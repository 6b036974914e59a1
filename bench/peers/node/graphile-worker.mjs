// graphile-worker with one task that sends the job's payload on:
//
//   node graphile-worker.mjs CONNECTION setup
//   node graphile-worker.mjs CONNECTION TARGET SETTINGS
//
// SETTINGS are of its preset, as JSON.
import { Logger, run, runMigrations } from "graphile-worker";
import { deliverer, untilTerminated } from "./deliver.mjs";

const [connectionString, target, settings] = process.argv.slice(2);
const logger = new Logger(() => (level, message) => {
  if (level === "error" || level === "warning") console.error(level, message);
});

async function work() {
  const worker = { connectionString, logger, ...JSON.parse(settings) };
  const destination = deliverer(target, worker.concurrentJobs);
  const runner = await run({
    preset: { worker },
    noHandleSignals: true,
    crontab: "",
    taskList: {
      deliver: (payload, helpers) =>
        destination.send(String(helpers.job.id), JSON.stringify(payload)),
    },
  });
  await untilTerminated();
  await runner.stop();
  await destination.close();
}

if (target === "setup") await runMigrations({ connectionString, logger });
else await work();
process.exit(0);
