// Dead letters: what was rejected, why, what it holds, and how to send it again.

import { letters as list, replay, send } from "./api.js";
import { ago, badge, card, code, folded, into, link, make, number, plural, soft, when, words } from "./dom.js";

const SHOWN = 20, MOST = 100;

export function letters(place, reason = "", limit = SHOWN) {
  const shown = make("div");
  place.append(shown);
  into(shown, async () => {
    const { total, complete, reasons, letters: found } = await list(reason, limit);
    const some = complete ? "" : " among the newest; `hmx dlq` counts all";
    if (!found.length) return card("Dead letters", soft("Nothing of this tenant was rejected", some, ". ", code("hmx validate"), " shows before publishing what would be."));
    const more = found.length < total && limit < MOST
      ? make("button", { type: "button", class: "quiet", onclick: () => { place.replaceChildren(); letters(place, reason, MOST); } }, "Show more") : "";
    return [card("Dead letters",
      make("p", {}, `${plural(total, "record")} ${total === 1 ? "was" : "were"} rejected`, some, ". Each is kept as it came; secrets are not shown here."),
      make("ul", { class: "legend", "aria-label": "Reasons" },
        [["", total], ...reason ? [] : Object.entries(reasons)].map(([name, count]) => make("li", {},
          link(name ? `${words(name)} ${number(count)}` : "all", ...["letters", ...name ? [name] : []]))))),
    ...found.map(letter), more];
  });
}

function letter(it) {
  const where = `${it.partition}:${it.offset}`;
  return make("section", { class: "card letter", "aria-label": `Dead letter ${where}` },
    make("h2", {}, badge("rejected"), " ", code(it.reason), it.path ? [" at ", code(it.path)] : null),
    it.detail && it.detail !== it.advice && make("p", {}, it.detail),
    make("p", {}, "What to do: ", it.advice || "see the detail", "."),
    soft(it.session_id ? ["session ", link(it.session_id, "sessions", it.session_id), ", "] : "", `step ${it.step}, rejected `, ago(it.rejected_at),
      `, record ${it.origin} of the events topic, ${number(it.size)} bytes`),
    it.value === null ? soft("It is too long to be shown: ", code("hmx dlq --show-values"), ".")
      : folded("the record", () => make("pre", { tabindex: "0" }, pretty(it.value))),
    it.value !== null && folded("correct it and send it", () => again(it)),
    back(it));
}

// Sends the original bytes, once; the service says why it does not.
function back(it) {
  const said = make("div", { "aria-live": "polite" });
  const click = () => into(said, async () => {
    await replay(it);
    return make("p", {}, "It is in the log again, as it came. ", it.session_id && ["See ", link("its session", "sessions", it.session_id), "."]);
  });
  return folded("send it back as it came", () => [
    soft("For when the cause is gone: a limit was raised, or a new version accepts it. It is sent once, and only if it would be accepted now."),
    make("p", {}, make("button", { type: "button", onclick: click }, "Replay")), said]);
}

function pretty(value) {
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}

// A corrected record is a new event; the service says at once whether it takes it.
function again(it) {
  const said = make("div", { "aria-live": "polite" });
  const text = make("textarea", { rows: 12, spellcheck: "false", class: "code", "aria-label": "The corrected event" });
  text.value = pretty(it.value);
  const form = make("form", { onsubmit: event => {
    event.preventDefault();
    into(said, async () => {
      let given;
      try {
        given = JSON.parse(text.value);
      } catch (error) {
        return make("p", { class: "warn" }, `This is no JSON: ${error.message}`);
      }
      await send(given);
      return make("p", {}, "Kafka has it. It is in memory in a moment: ", given.session_id ? link("its session", "sessions", given.session_id) : "", ".");
    });
  } }, text, make("p", {}, make("button", {}, "Send")));
  return [form, said];
}
