/** A refused control call. */
export class ControlError extends Error {
  readonly status: number;
  readonly code: string;
  readonly body: unknown;
}

type Fields = Record<string, unknown>;
type Records = Array<Record<string, any>>;

/** One key of a running emulator: what the client under test needs, and the control API for that key. */
export class Emulator {
  constructor(url: string, key: string);
  /** The base URL. */
  readonly url: string;
  /** The API key of this test. */
  readonly key: string;
  readonly headers: { authorization: string };
  /** A URL of the built-in receiver, for this key alone. */
  readonly sinkUrl: string;
  readonly clock: {
    freeze(at?: string): Promise<void>;
    auto(): Promise<unknown>;
    advance(duration: string): Promise<string>;
    follow(): Promise<unknown>;
  };
  /** Any call of the control API, `path` below `/_emulator/`. */
  control(method: string, path: string, body?: unknown, contentType?: string): Promise<any>;
  post(path: string, fields?: Fields): Promise<any>;
  get(path: string, query?: Record<string, string | number>): Promise<any>;
  waitForRequests(filters?: Fields): Promise<Records>;
  waitForDeliveries(filters?: Fields): Promise<Records>;
  scenario(...given: Array<string | { toml: string }>): Promise<unknown>;
  set(settings: Fields): Promise<unknown>;
  trigger(type: string, fields?: Fields): Promise<Records>;
  forward(origin: string, to: string): Promise<unknown>;
  scriptSink(...statuses: number[]): Promise<unknown>;
  received(): Promise<Records>;
  reset(): Promise<unknown>;
  save(): Promise<unknown>;
  load(snapshot: unknown): Promise<unknown>;
  fork(key?: string): Promise<Emulator>;
  explain(id: string): Promise<string>;
  ended(test: string, failure?: string, output?: string): Promise<unknown>;
  story(): Promise<string[]>;
}

/** The body of a test for node:test, vitest and jest. */
export function withEmulator(
  body: (emulator: Emulator, ...given: any[]) => unknown,
  options?: { clock?: "auto" | "frozen" },
): (...given: any[]) => Promise<void>;
