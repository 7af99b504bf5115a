// A client that calls, and validators made with zod, of each document in the working folder.
const baseUrl = process.env.WRS_EMULATOR_URL;

export default Object.fromEntries(['emulated', 'changed', 'control'].flatMap((name) => ['fetch', 'zod'].map((client) => [
  `${name}-${client}`,
  { input: `./${name}.json`, output: { target: `./orval/${name}-${client}.ts`, client, mode: 'single', baseUrl } },
])));
