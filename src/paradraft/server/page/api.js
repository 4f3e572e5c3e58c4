// Asks the server. Paths are relative, so that the page also works behind a prefix of a proxy.

/** An error as the server told it, or as the browser did where no answer came. */
export class ServerError extends Error {
  constructor(status, { message, type, param, code } = {}) {
    super(message);
    this.status = status;
    this.details = [status && `HTTP ${status}`, type, param && `param ${param}`, code].filter(Boolean).join(", ");
  }

  toString() {
    return this.details ? `${this.message}\n(${this.details})` : this.message;
  }
}

/** Return a parsed JSON answer; throw ServerError for any other. */
export async function getJson(path) {
  const response = await reach(path, {});
  if (!response.ok) throw await errorOf(response);
  return response.json();
}

/** Yield the chunks of a streamed answer; throw ServerError where the server tells of one, before or within it. */
export async function* stream(path, body, signal) {
  const response = await reach(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  if (!response.ok) throw await errorOf(response);
  let isWhole = false;
  for await (const data of eventsOf(response.body)) {
    if (data === "[DONE]") {
      isWhole = true;
      break;
    }
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ServerError(0, chunk.error);
    yield chunk;
  }
  if (!isWhole) throw new ServerError(0, { message: "The connection ended before the answer did." });
}

async function* eventsOf(bytes) {
  const reader = bytes.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      if (event.startsWith("data: ")) yield event.slice("data: ".length);
    }
  }
}

async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(0, { message: `The server cannot be reached (${error.message}).` });
  }
}

async function errorOf(response) {
  const text = await response.text();
  try {
    return new ServerError(response.status, JSON.parse(text).error);
  } catch {
    return new ServerError(response.status, { message: text.slice(0, 2000) || response.statusText });
  }
}
