// The address of what is shown: `#/requests/req_1?filter=429&key=sk_test_a`. Pure.

/** @typedef {{view: string, id: string, filter: string, key: string}} Route */

/** The views of the rail in its groups, in order, with their names. */
export const GROUPS = /** @type {const} */ ([
  ['Observe', [['summary', 'Summary'], ['activity', 'Activity'], ['deliveries', 'Deliveries'], ['review', 'Review']]],
  ['Control', [['scenarios', 'Scenarios'], ['time', 'Time'], ['keys', 'Keys'], ['subscriptions', 'Subscriptions'], ['settings', 'Settings']]],
  ['Tools', [['trigger', 'Trigger'], ['check', 'Check signature']]],
]);

/** @type {[string, string][]} */
export const VIEWS = GROUPS.flatMap(([, views]) => views.map(([view, name]) => /** @type {[string, string]} */ ([view, name])));

const OF_ACTIVITY = ['requests', 'events'];

/** @param {string} text @returns {string} */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @param {string} hash @param {string} first the view of an empty address @returns {Route} */
export function parseRoute(hash, first) {
  const [path, query = ''] = hash.replace(/^#?\/?/, '').split(/\?(.*)/s);
  const [name, ...rest] = path.split('/');
  const known = VIEWS.some(([view]) => view === name);
  const view = OF_ACTIVITY.includes(name) ? 'activity' : known ? name : first;
  const words = new URLSearchParams(query);
  return { view, id: decoded(rest.join('/')), filter: words.get('filter') ?? '', key: words.get('key') ?? '' };
}

/** @param {Route} route @returns {string} */
export function formatRoute({ view, id, filter, key }) {
  const name = view !== 'activity' ? view : id.startsWith('req_') ? 'requests' : id.startsWith('evt_') ? 'events' : view;
  const words = new URLSearchParams();
  if (filter) words.set('filter', filter);
  if (key) words.set('key', key);
  const query = words.size ? `?${words}` : '';
  return `#/${name}${id ? `/${encodeURIComponent(id)}` : ''}${query}`;
}
