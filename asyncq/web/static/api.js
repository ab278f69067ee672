// Requests to the API. Its addresses are relative to the page, wherever that is mounted.

export class ApiError extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.type = error.type;
  }
}

export async function get(path) {
  return answer(await fetch(`api/${path}`, { headers: { accept: "application/json" } }));
}

export async function send(path, body, method = "POST") {
  const headers = { "content-type": "application/json", "x-asyncq": "1" };
  return answer(await fetch(`api/${path}`, { method, headers, body: JSON.stringify(body ?? {}) }));
}

async function answer(response) {
  const text = await response.text();
  if (response.ok) return JSON.parse(text);
  let error = { type: "Unexpected", message: `the server answered ${response.status}` };
  try {
    error = JSON.parse(text).error ?? error;
  } catch {
    // A proxy may answer with a page of its own.
  }
  throw new ApiError(response.status, error);
}
