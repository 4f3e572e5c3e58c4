// One question and its answer on the page.

import { answerInto, factsOf } from "./answering.js";
import { make } from "./elements.js";
import { prove } from "./proof.js";
import { TokenText } from "./tokens.js";

/** Return the element of what the user said. */
export function questionOf(message) {
  const text = make("div", "text", {}, message);
  return make("article", "turn user", { "aria-label": "You" }, make("h3", "", {}, "You"), text);
}

/** An answer in the making: its text, what can be done with it, and what went wrong. */
export class Answer {
  constructor(request, { model, run, say }) {
    this.request = request;
    this.text = new TokenText();
    this.ending = null;
    this._model = model;
    this._run = run; // runs one thing at a time, with a way to stop it
    this._say = say;
    this._below = make("div", "below");
    this.element = make("article", "turn answer", { "aria-label": "Answer" }, make("h3", "", {}, "Answer"),
      this.text.element, this._below);
  }

  /** Stream the answer; return whether anything came that a conversation can go on from. */
  async stream(options) {
    this.element.setAttribute("aria-busy", "true");
    try {
      this.ending = await answerInto(this.text, this.request, options);
    } catch (error) {
      this._show(error);
      return false;
    } finally {
      this.element.setAttribute("aria-busy", "false");
    }
    const facts = factsOf(this.text, this.ending);
    this._below.append(make("p", "facts", {}, facts), this._actions());
    const ended = this.ending.reason === "stopped" ? "Stopped" : "Answer complete";
    if (this.element.isConnected) this._say(`${ended}. ${facts}`);
    return this.text.numTokens > 0;
  }

  _actions() {
    const actions = make("div", "actions", {}, this._copyButton());
    if (this.ending.passes) actions.append(this._proofButton());
    return actions;
  }

  _copyButton() {
    const button = make("button", "copy", { type: "button" }, "Copy");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(this.text.text);
        this._say("Copied.");
        button.textContent = "Copied";
      } catch { // browsers refuse it to pages that came without encryption
        getSelection().selectAllChildren(this.text.element);
        this._say("Selected; copy it with the keyboard.");
        button.textContent = "Selected";
      }
    });
    return button;
  }

  _proofButton() {
    const { enabled } = this.request.body.speculative;
    const button = make("button", "prove", { type: "button" }, `Same seed ${enabled ? "without" : "with"} drafts`);
    const place = make("div", "proof");
    button.addEventListener("click", () => this._run(async (options) => {
      this._below.append(place);
      try {
        await prove(place, this, { ...options, isExact: this._model().is_exact });
      } catch (error) {
        this._show(error);
      }
    }));
    return button;
  }

  _show(error) {
    this._below.append(make("p", "error", { role: "alert" }, String(error)));
  }
}
