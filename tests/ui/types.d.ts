// Names that the page's modules use in their JSDoc. Shapes of the control API come from its OpenAPI document: `run.sh` generates `api.d.ts`.

import type { components } from './api';

type Schemas = components['schemas'];

declare global {
  type Bytes = Schemas['Bytes'];
  type RequestRow = Schemas['Request'];
  type RequestDetail = Schemas['RequestWhole'];
  type EventRow = Schemas['Event'];
  type DeliveryRow = Schemas['Delivery'];
  type DeliveryDetail = Schemas['DeliveryWhole'];
  type AttemptDetail = Schemas['Attempt'];
  type SubscriptionRow = Schemas['Subscription'];
  type ScenarioDetail = Schemas['RunScenario'];
  type DiagnosticRow = Schemas['Diagnostic'];
  type KeyRow = Schemas['KeyState'];
  type SettingRow = Schemas['Setting'];
  type AssumptionRow = Schemas['Assumption'];
  type StepRow = Schemas['Step'];
  type Notice = Schemas['Notice'];
  type Advice = Schemas['Advice'];
  type RunDocument = Schemas['Run'];
  type FindingRow = Schemas['Finding'];
  type Findings = NonNullable<RunDocument['findings']>;

  /** What the event stream says of an attempt. */
  type StreamedAttempt = AttemptDetail & { delivery: string; event: string; type: string; subscription: string; workspace?: string | null };

  /** The answer of `explain`, or the same put together from a document. */
  interface Explanation {
    summary?: string;
    steps: StepRow[];
    advice?: Schemas['Hint'][] | null;
    rules?: (Schemas['RuleTrace'] & { line?: number })[] | null;
    note?: string | null;
    request?: RequestDetail | null;
    delivery?: DeliveryDetail | null;
    event?: EventRow | null;
  }

  type Detail = { explanation: Explanation } | { error: string };
  type EntryKind = 'request' | 'event' | 'delivery' | 'notice';

  /** A row of the list. */
  interface Entry {
    kind: EntryKind;
    id: string;
    /** Milliseconds since 1970. */
    at: number;
    text: string;
    workspace: string | null;
    key: string | null;
    status: number;
    operation: string | null;
    method: string | null;
    path: string | null;
    type: string | null;
    scenario: string | null;
    damage: string | null;
    /** Falsified on purpose, so that the receiver must refuse it. */
    forged: boolean;
    failed: boolean;
    subscription: string | null;
    event: string | null;
    number: number;
    latency: number;
    mark: string;
    /** The message of the error that was answered, where it is known. */
    message: string;
    /** The quota after a request, where it is known. */
    quota: RequestRow['quota'];
    /** An attempt that found no receiver. */
    unreached: boolean;
    /** Another attempt of the same delivery decides. */
    superseded: boolean;
  }

  /** What a field's handler is given. */
  type Typed<Field = HTMLInputElement> = Event & { target: Field };
  type Nodes = (Node | null)[];
  type Child = import('../../src/ui/assets/element.js').Child;
  type Action = import('../../src/ui/assets/command.js').Action;
  /** Where a link leads. */
  type To = Partial<import('../../src/ui/assets/route.js').Route>;

  /** What views may use. */
  interface Page {
    store: import('../../src/ui/assets/store.js').Store;
    live: import('../../src/ui/assets/live.js').Live;
    route: import('../../src/ui/assets/route.js').Route;
    ui: { asked: string; copied: string; results: Map<string, any>; filterFocused: boolean; moreFilters?: boolean; folded?: boolean; menu: boolean; menuOpen: string; isMenuLeft?: boolean; toast: boolean; shortcuts: boolean; forms: Record<string, any>; notice: string };
    base: string;
    /** The width of the view in pixels, 0 while it is not known. */
    width: number;
    /** The record opened last, as long as its row is not in view. */
    hidden: string;
    said: string;
    readonly isDocument: boolean;
    readonly hasToken: boolean;
    readonly unread: number;
    cli(words: string[]): string;
    address(to: To): string;
    go(to: To, replace?: boolean): void;
    filterBy(name: string, value: string): void;
    announce(text: string): void;
    say(text: string): void;
    palette(open: boolean): void;
    perform(action: Action): Promise<any>;
    redraw(): void;
    help(open: boolean): void;
  }
}
