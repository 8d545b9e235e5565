// Runs the code that comes over stdin, and tells on stdout what came of it.
//
// This is the main module, and the code is no part of it: what a main module imports by a literal
// name, Deno loads without asking for permission. What is imported while it runs needs permission.
// What is needed after the code ran is taken before: the code may have changed every prototype.
const { parse, stringify } = JSON;
const textOf = Function.prototype.call.bind(Function.prototype.toString);
const part = Function.prototype.call.bind(Uint8Array.prototype.subarray);
const encode = TextEncoder.prototype.encode.bind(new TextEncoder());
const write = Deno.stdout.writeSync.bind(Deno.stdout);
const evaluate = eval; // Under another name it evaluates a script of its own, not in here.

const MOST_MESSAGE = 4096;
const SOURCE = "\n//# sourceURL=code.ts";
const { nonce, url, code, task, input, most } = parse(received());
let answered = false;
let transpiled = false;
let refused = null; // The line that Deno could not read.

function received() {
  const decoder = new TextDecoder();
  const buffer = new Uint8Array(65536);
  let text = "";
  for (let n; (n = Deno.stdin.readSync(buffer)) !== null;) {
    text += decoder.decode(buffer.subarray(0, n), { stream: true });
  }
  return text;
}

// The first answer counts: whoever reads it ends this process.
function answer(kind, text) {
  if (answered) return;
  answered = true;
  const bytes = encode(kind + " " + text);
  send(encode(nonce + bytes.length + ":"));
  send(bytes);
}

function send(bytes) {
  for (let sent = 0; sent < bytes.length;) sent += write(part(bytes, sent));
}

function answerValue(value) {
  let text;
  try {
    text = value === undefined ? "null" : stringify(value);
  } catch (error) {
    return answer("output", stringify("the result cannot be told as JSON: " + sentence(error)));
  }
  if (text === undefined) {
    const found = "the result is a " + typeof value + ", which JSON does not have: return data";
    return answer("output", stringify(found));
  }
  const size = text.length > most ? text.length : encode(text).length;
  if (size > most) {
    const found = "the result is " + size + " bytes of JSON, " + most + " are taken: return less";
    return answer("output", stringify(found));
  }
  answer("value", text);
}

async function answerError(error) {
  let line = null;
  try {
    line = await lineOf(error);
  } catch {
    // Whatever the code did to the stack: the error is told without its line.
  }
  const where = line > 0 ? " (line " + line + ")" : "";
  answer("error", stringify(sentence(error) + where));
}

function sentence(error) {
  try {
    const isError = error instanceof Error || typeof error?.message === "string";
    const text = isError ? `${error.name}: ${error.message}` : `${told(error)} was thrown`;
    return text.length > MOST_MESSAGE ? text.slice(0, MOST_MESSAGE) + "…" : text;
  } catch {
    return "an error that cannot be told was thrown";
  }
}

function told(thrown) {
  const text = typeof thrown === "object" ? stringify(thrown) : undefined;
  return text ?? String(thrown);
}

// Deno takes the types off a module that is imported; the text of a function in it is the code.
async function transpile() {
  const { __code } = await import(url);
  const text = textOf(__code);
  transpiled = true;
  return text.slice(text.indexOf("{") + 1, text.lastIndexOf("}"));
}

async function run() {
  let body;
  let refusal;
  try {
    body = await transpile();
  } catch (error) {
    refusal = unreadable(String(error?.message)); // Or it is JavaScript of an older kind.
    body = "\n" + code + "\n";
  }
  if (isScript(body)) return evaluate(body + SOURCE);
  const source = wrapped(transpiled ? withReturn(body) : body);
  if (refusal !== undefined && !parses(source)) throw refusal;
  return evaluate(source + SOURCE)();
}

function unreadable(message) {
  const place = /\s*\(?at data:\S*:(\d+):\d+/.exec(message);
  if (place) refused = place[1] - 1;
  const sentence = (place ? message.slice(0, place.index) : message).split("\n")[0];
  return new SyntaxError(sentence.replace(/^SyntaxError: /, ""));
}

function wrapped(body) {
  return "(async () => {" + body + "\n})";
}

function parses(source) {
  try {
    evaluate(source);
    return true;
  } catch {
    return false;
  }
}

// In neither of these is `return` allowed, as in a script, and neither of them runs. In the first
// `await` is no name, as in a module; the second takes what only a script may have.
function isScript(body) {
  if (parses("(() => class { static {" + body + "\n} })")) return true;
  return !/\bawait\b/.test(body) && parses("while (false) {" + body + "\n}");
}

// A function has no value of its own: its last statement is returned, if it is an expression. As
// Deno writes code, a statement begins a line, and two spaces are before it.
function withReturn(body) {
  const places = [...body.matchAll(/^  (?=[^\s})\]/])/gm)].slice(-20).reverse();
  for (const { index } of places) {
    const before = body.slice(0, index);
    const last = body.slice(index);
    if (!parses(wrapped(before))) continue; // It is within a text or a list.
    const returned = before + "return " + last;
    const declares = /^\s*(?:(?:async\s+)?function\b|class\b|\{|;)/.test(last);
    return !declares && parses(wrapped(returned)) ? returned : body;
  }
  return body;
}

async function lineOf(error) {
  const found = /code\.ts(?:, <anonymous>)?:(\d+):(\d+)/.exec(String(error?.stack));
  if (!found) return refused;
  const line = Number(found[1]);
  return (transpiled ? await original(line, Number(found[2])) : line) - 1;
}

// Loading node:module takes longer than all the rest, so it is done for an error alone.
async function original(line, column) {
  const { stripTypeScriptTypes } = await import("node:module");
  const text = atob(url.slice(url.indexOf(",") + 1));
  const source = new TextDecoder().decode(Uint8Array.from(text, (c) => c.charCodeAt(0)));
  const out = stripTypeScriptTypes(source, { mode: "transform", sourceMap: true });
  const map = parse(atob(out.slice(out.lastIndexOf(",") + 1)));
  return mapped(map.mappings.split(";"), line, column);
}

function mapped(lines, line, column) {
  let at = 0; // Lines of the source count on from one segment to the next, columns do not.
  let best = null;
  for (let n = 0; n < line; n++) {
    let from = 0;
    for (const segment of lines[n].split(",").filter(Boolean)) {
      const fields = numbers(segment);
      from += fields[0];
      at += fields[2] ?? 0;
      if (n === line - 1 && (best === null || from < column)) best = at + 1;
    }
  }
  return best;
}

function numbers(segment) {
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const found = [];
  let value = 0;
  let shift = 0;
  for (const character of segment) {
    const digit = digits.indexOf(character);
    value |= (digit & 31) << shift;
    shift += 5;
    if (digit & 32) continue;
    found.push(value & 1 ? -(value >> 1) : value >> 1);
    value = shift = 0;
  }
  return found;
}

// Errors go where console.error goes already; the rest joins them, since stdout has the answer.
const { error: print } = console;
console.log = console.info = console.debug = print;
console.dir = console.dirxml = (value) => print(value);
// A thread has a heap of its own, the graphics card its driver's code and files, both without any
// permission; and what Deno is made of inside is nobody's business.
delete globalThis.Worker;
delete globalThis.OffscreenCanvas;
delete Navigator.prototype.gpu;
delete Deno[Deno.internal];
globalThis.task = task;
globalThis.input = input;
addEventListener("error", (event) => {
  event.preventDefault();
  answerError(event.error);
});
addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  answerError(event.reason);
});
try {
  answerValue(await run());
} catch (error) {
  await answerError(error);
}
