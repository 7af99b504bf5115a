// A placeholder: shows where the document is.

import { runDocument } from './store.js';

/** Shows the first line. */
async function begin() {
  const run = await runDocument();
  document.body.append(`${run.requests.length} requests, ${run.deliveries.length} deliveries`);
}

begin();
