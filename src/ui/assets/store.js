// Where the run document comes from: the page itself in a report, else the emulator.

/** @returns {Promise<any>} */
export async function runDocument() {
  const inline = document.getElementById('run');
  return inline ? JSON.parse(inline.textContent ?? '') : (await fetch('run')).json();
}
