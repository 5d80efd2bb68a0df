export type Json = Record<string, unknown>;

export interface HmxSettings {
  /** Default: http://127.0.0.1:8080 */
  url?: string;
  /** From `hmx keys new`. */
  key?: string;
  /** Where the service has no keys; also of events that name none. */
  tenant?: string;
  /** The longest that a call takes, its repeats included. Default: 30,000 */
  timeoutMs?: number;
  /** How often a call is tried at most. Default: 3 */
  tries?: number;
}

export interface Appended {
  accepted: number;
  /** `index` is the place among the events that were sent. */
  rejected: { index: number; reason: string; detail?: string }[];
  /** For `pack`, which then waits until memory holds these events. */
  after?: string;
}

export interface Pack {
  entries: { section: string; content: string; source_id: string; source_type: string; relevance_score: number }[];
  /** A block for a prompt. */
  text: string;
  /** False while memory is being loaded. */
  complete: boolean;
  /** All that the service said. */
  raw: Json;
}

/** `cursor` asks for the next page; none at the end. */
export interface Page { records: Json[]; cursor?: string }

export interface PackRequest {
  subject_id?: string; session_id?: string; agent_id?: string; token_budget?: number; after?: string; as_of?: string;
  [member: string]: unknown;
}

export interface Capture { type: string; sessionId: string; payload: Json; metadata?: Json; idempotencyKey?: string }

/** All methods throw HmxError. */
export class HmxClient {
  constructor(settings?: HmxSettings);
  /** Rejected events are in the answer, each with its reason; if all are, it throws. */
  append(...events: Json[]): Promise<Appended>;
  /** Captures, which the service puts in order, in as many requests as they need. Returns how many it refused. */
  capture(events: Capture[]): Promise<number>;
  captureWritten(texts: string[]): Promise<number>;
  pack(query: string, asked?: PackRequest): Promise<Pack>;
  artifacts(asked?: { cursor?: string; limit?: number; [member: string]: unknown }): Promise<Page>;
  artifact(artifactId: string): Promise<Json>;
  knowledge(asked?: { cursor?: string; limit?: number; [member: string]: unknown }): Promise<Page>;
  record(recordId: string): Promise<Json>;
  confirm(recordId: string, said?: { reason?: string }): Promise<Json>;
  correct(recordId: string, said: { text?: string; value?: string; reason?: string }): Promise<Json>;
  retract(recordId: string, said?: { reason?: string }): Promise<Json>;
  erase(scope: { subject: string } | { session: string } | { all: true }): Promise<Json>;
}

export class HmxError extends Error {
  /** A problem of docs/reference/routes.md, or `no_answer`. */
  reason: string;
  /** 0 without an answer. */
  status: number;
  raw: Json;
}

/** An event of now. Send the same one again after an error: it is recognised by its event_id. */
export function message(sessionId: string, sequence: number, text: string, more?: { role?: string; [member: string]: unknown }): Json;

/** For adapters: recalls, and tells in the background what an agent does. It never throws. */
export class HmxMemory {
  constructor(settings?: Pick<HmxSettings, "url" | "key" | "tenant"> & {
    subject?: string; agent?: string; session?: string; tokens?: number; recallMs?: number; awayMs?: number;
    waitingLength?: number; environment?: Record<string, string | undefined>;
  });
  readonly session: string;
  /** Events that did not fit. */
  readonly lost: number;
  /** Events that the service did not take. */
  readonly refused: number;
  recall(query: string, session?: string): Promise<string>;
  said(session: string | undefined, role: string, text: string, key: string): void;
  called(session: string | undefined, callId: string, tool: string, given: unknown, key: string): void;
  returned(session: string | undefined, callId: string, tool: string, given: unknown, failed: boolean, key: string): void;
  failed(session: string | undefined, error: unknown, key: string): void;
  tell(session: string | undefined, type: string, payload: Json, key: string): void;
  /** Waits until all is sent; false if time runs out before. */
  flush(ms?: number): Promise<boolean>;
}
