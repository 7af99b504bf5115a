#!/usr/bin/env node
// Runs the binary of the platform's package with the same arguments, standard streams, signals and exit code.
"use strict";
const { spawn } = require("node:child_process");
const { constants } = require("node:os");

let binary;
try {
  binary = require("../binary.js")();
} catch (error) {
  console.error(`error: ${error.message}`);
  process.exit(1);
}

const args = process.argv.slice(2);
// Node 22.15 and newer can become the binary. Every other way needs a second process for as long as the first runs.
if (process.execve) process.execve(binary, [binary, ...args], process.env);

const child = spawn(binary, args, { stdio: "inherit" });
// A terminal sends Ctrl-C to both processes; a second one would end the grace period of the emulator.
const terminal = [0, 1, 2].some((stream) => require("node:tty").isatty(stream));
process.on("SIGINT", () => terminal || child.kill("SIGINT"));
for (const signal of ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`error: cannot run ${binary}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (code !== null) process.exit(code);
  // Ends as the child did, so that a shell sees the signal.
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  // A signal that does not end Node.
  setTimeout(() => process.exit(128 + constants.signals[signal]), 1000);
});
