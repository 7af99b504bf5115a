// The causes of a run with their records. The emulator finds the causes and judges which of them failed the run. Pure.

/** @typedef {NonNullable<RunDocument['verification']['causes']>[number]} FoundCause */
/**
 * A cause with its records.
 * @typedef {FoundCause & {id: string, entries: Entry[], view: 'activity' | 'deliveries' | 'keys' | 'review'}} Cause
 */

/** Whether a test failed. Its runner may have expected it: then the command succeeded. @param {RunDocument} run @param {KeyRow['test']} test */
export function isFailed(run, test) {
  return test?.outcome === 'failed' && run.exec?.exit_status !== 0;
}

/** Every cause that is shown, those that made the run fail first. @param {RunDocument} run @param {Entry[]} entries @returns {Cause[]} */
export function causesOf(run, entries) {
  const records = new Map(entries.filter((one) => !one.superseded).map((one) => [one.id, one]));
  return (run.verification.causes ?? []).filter(({ standing }) => standing !== 'elsewhere').map((cause) => {
    const found = cause.records.flatMap((id) => records.get(id) ?? []);
    /** @type {Cause['view']} */
    const view = cause.kind === 'finding' ? 'review' : cause.kind === 'forged' || cause.kind === 'undelivered' ? 'deliveries' : found.length ? 'activity' : 'keys';
    return Object.assign({}, cause, { id: `${cause.kind} ${cause.sentence} ${cause.tests[0]?.key ?? ''}`, entries: found, view });
  });
}
