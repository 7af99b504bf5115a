// The path of the program: in this package if it was packed with binaries, else in the platform's package.
"use strict";

const { existsSync, readdirSync } = require("node:fs");
const { join } = require("node:path");
const { name, optionalDependencies } = require("./package.json");

module.exports = function binary() {
  const platform = `${process.platform}-${process.arch}`;
  const packed = join(__dirname, "bin", platform, "wrs-emulator");
  if (existsSync(packed)) return packed;
  try {
    return require.resolve(`${name}-${platform}/bin/wrs-emulator`);
  } catch {
    throw new Error(optionalDependencies ? published(platform) : fromFile(platform));
  }
};

const ELSEWHERE = "elsewhere build it from a checkout with Rust: `cargo install --profile dist --path .`";

function published(platform) {
  const known = Object.keys(optionalDependencies).map((one) => one.slice(name.length + 1));
  const hint = known.includes(platform)
    ? "it is an optional dependency: install without `--omit=optional`"
    : `there are packages for ${known.join(", ")}; ${ELSEWHERE}`;
  return `the package \`${name}-${platform}\` with the binary is not installed\n\nhint: ${hint}`;
}

function fromFile(platform) {
  const known = readdirSync(join(__dirname, "bin"), { withFileTypes: true }).filter((one) => one.isDirectory());
  return `this package has no binary for ${platform}, only for ${known.map((one) => one.name).join(", ")}\n\n` +
    "hint: pack it with one: `python3 packages/build.py BINARY… FOLDER` accepts a binary for each platform";
}
