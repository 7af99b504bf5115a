import type * as control from "./control";

/** What the emulated API sends and accepts: `WebhookEvent` and the others. */
export * from "./api";
/** The records of the control API. */
export type { control };

/** A refused control call. */
export class ControlError extends Error {
  readonly call: string;
  readonly status: number;
  readonly code: string;
  readonly reason: string;
  readonly body: unknown;
}

type Fields = Record<string, unknown>;

/** A signed event: the headers, and the raw body that they sign. */
export interface Signed {
  id: string;
  headers: Record<string, string>;
  /** A Buffer. */
  body: Uint8Array;
}

/** A case of the probe: its requests, and the correct answer of a handler. */
export interface Case extends Omit<control.DeliveryCase, "requests"> {
  requests: Array<{ method: string; headers: Record<string, string>; body: Uint8Array }>;
  /** What is wrong with this answer; undefined if it is right. */
  problem(status: number): string | undefined;
}

/** What a test runner fakes timers and `Date` with. */
export type FakeTimers = { advanceTimersByTime(by: number): unknown } | { tick(by?: number): unknown };

/** One key of a running emulator: address and headers for the client under test, and the control API for that key. */
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
    auto(): Promise<control.PostClockAnswer>;
    advance(duration: string): Promise<string>;
    set(at: string): Promise<string>;
    /** `vi` of vitest, `jest`, or `mock.timers` of node:test. */
    follow(timers?: FakeTimers): Promise<control.PostClockAnswer>;
  };
  /** Any call of the control API, `path` below `/_emulator/`. */
  control(method: string, path: string, body?: unknown, contentType?: string): Promise<any>;
  post(path: string, fields?: Fields): Promise<any>;
  get(path: string, query?: Record<string, string | number>): Promise<any>;
  waitForRequests(filters?: Fields): Promise<control.Request[]>;
  waitForDeliveries(filters?: Fields): Promise<control.Delivery[]>;
  noDelivery(filters?: Fields): Promise<void>;
  noRequest(filters?: Fields): Promise<void>;
  scenario(...given: Array<string | { toml: string }>): Promise<control.PostScenariosActiveAnswer>;
  set(settings: Fields): Promise<control.PatchProfileAnswer>;
  trigger(type: string, fields?: Fields & { count?: undefined }): Promise<control.DeliveryWhole[]>;
  /** More than 100 deliveries have the number of their attempts alone. */
  trigger(type: string, fields: Fields): Promise<Array<control.DeliveryWhole | control.Delivery>>;
  signed(type: string, fields?: Fields): Promise<Signed>;
  cases(secret?: string, fields?: Fields): Promise<Case[]>;
  forward(origin: string, to: string): Promise<control.PatchProfileAnswer>;
  scriptSink(...statuses: number[]): Promise<control.PostSinkByNameAnswer>;
  received(): Promise<control.Receipt[]>;
  reset(): Promise<control.PostResetAnswer>;
  save(): Promise<control.GetSnapshotAnswer>;
  load(snapshot: control.GetSnapshotAnswer): Promise<control.PutSnapshotAnswer>;
  fork(key?: string): Promise<Emulator>;
  explain(id: string): Promise<string>;
  ended(test: string, failure?: string, output?: string, error?: unknown): Promise<control.TestOutcome>;
  story(): Promise<string[]>;
}

/** The body of a test for node:test, vitest and jest. */
export function withEmulator(
  body: (emulator: Emulator, ...given: any[]) => unknown,
  options?: { clock?: "auto" | "frozen" },
): (...given: any[]) => Promise<void>;
