// Asking the viewer's server. It is the only one that is ever asked.

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Asks for `/api/<what>`; parameters that are empty are left out. */
export async function ask(what, parameters = {}, signal = undefined) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== '' && value !== false) query.set(key, value);
  }
  let answer;
  try {
    answer = await fetch(`/api/${what}?${query}`, { signal, credentials: 'same-origin' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Refused(0, 'the viewer does not answer: is it still running?');
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, body.error ?? `the viewer answered ${answer.status}`);
  return body;
}

/** Follows changes while the page can be seen: browsers hold few connections for all tabs. */
export class Live {
  #source = null;
  #again = 0;
  #key = null;
  constructor(onchange, onstate) {
    this.onchange = onchange;
    this.onstate = onstate;
    document.addEventListener('visibilitychange', () => this.#restart());
  }

  /** Watches the list and this session, if any. */
  watch(key) {
    this.#key = key;
    this.#restart();
  }

  #restart() {
    clearTimeout(this.#again);
    this.#source?.close();
    this.#source = null;
    if (document.visibilityState === 'hidden') return this.onstate('off');
    const query = this.#key === null ? '' : `?${new URLSearchParams({ key: this.#key })}`;
    const source = new EventSource(`/api/live${query}`);
    this.#source = source;
    source.addEventListener('ready', () => {
      this.onstate('on');
      this.onchange({ session: true, sessions: true });
    });
    source.addEventListener('change', (event) => this.onchange(JSON.parse(event.data)));
    source.addEventListener('end', () => this.#later());
    source.addEventListener('error', () => {
      this.onstate('wait');
      if (source.readyState === EventSource.CLOSED) this.#later();
    });
  }

  #later() {
    this.onstate('wait');
    this.#source?.close();
    clearTimeout(this.#again);
    this.#again = setTimeout(() => this.#restart(), 5000);
  }
}
