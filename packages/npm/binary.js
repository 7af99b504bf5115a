// The path of the program in the platform's package.
"use strict";

const { name, version, optionalDependencies } = require("./package.json");

module.exports = function binary() {
  const platform = `${name}-${process.platform}-${process.arch}`;
  try {
    return require.resolve(`${platform}/bin/wrs-emulator`);
  } catch {
    const hint = platform in optionalDependencies
      ? `it is an optional dependency: install without \`--omit=optional\`, or \`npm install ./${platform}-${version}.tgz\``
      : `there are packages for ${Object.keys(optionalDependencies).map((known) => known.slice(name.length + 1)).join(", ")}; ` +
        "elsewhere build it from a checkout with Rust: `cargo install --profile dist --path .`";
    throw new Error(`the package \`${platform}\` with the binary is not installed\n\nhint: ${hint}`);
  }
};
