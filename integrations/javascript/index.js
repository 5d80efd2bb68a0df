export { HmxMemory } from "./agent-memory.js";
export { HmxClient, HmxError, message } from "./client.js";
