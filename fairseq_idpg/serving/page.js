"use strict";

// Sends a sentence (or a pair) to /predict and shows the answer. Sentences, labels and words go through textContent, so
// they are never read as HTML. ?sentence=...&sentence2=...&task=... fills the form and asks once the model is loaded.

const field = (id) => document.getElementById(id);
let tasks = [];
let asked = 0;
let waiting = false; // to ask as soon as the model is there

function made(tag, text, ...children) {
  const element = document.createElement(tag);
  element.textContent = text;
  element.append(...children);
  return element;
}

function table(caption, rows) {
  const cells = (row) => row.map((cell) => (cell instanceof Node ? cell : made("td", cell)));
  return made("table", "", made("caption", caption), ...rows.map((row) => made("tr", "", ...cells(row))));
}

function bar(share) {
  const meter = made("meter", "");
  meter.value = share;
  return made("td", "", meter);
}

async function ask(path, options) {
  const answer = await fetch(path, options);
  const value = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(value.error), { status: answer.status });
  return value;
}

const selected = () => tasks.find((task) => task.task === field("task").value) || tasks[0];

function fitForm() {
  const reads = selected().reads;
  field("of-second").hidden = !reads.includes("pair");
  field("sentence2").required = !reads.includes("sentence");
}

function elementsOf(answer) {
  const parts = [];
  if (answer.label === undefined) {
    parts.push(made("h2", `score ${answer.score.toFixed(4)}`));
  } else {
    parts.push(made("h2", `${answer.label} (${(100 * answer.probability).toFixed(1)}%)`));
    const rows = Object.entries(answer.probabilities).map(([label, share]) => [label, share.toFixed(4), bar(share)]);
    parts.push(table("Probabilities", rows));
  }
  if (answer.cut) parts.push(made("p", "The text is too long: its end was not read."));
  if (answer.prompts) {
    const near = (words) => words.map(({ word, cosine }) => `${word} ${cosine.toFixed(2)}`).join(", ");
    const layer = (number) => answer.prompt_layers[number];
    const rows = answer.prompts.map((words, number) => [`row ${number + 1}, layer ${layer(number)}`, near(words)]);
    parts.push(table("Nearest words of the prompt rows that this input got, with cosines", rows));
  }
  return parts;
}

async function predict() {
  const task = selected();
  const second = field("of-second").hidden ? "" : field("sentence2").value;
  const text = second ? [field("sentence").value, second] : field("sentence").value;
  const number = ++asked;
  let parts = [];
  let error = "";
  try {
    const value = await ask("predict", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ texts: [text], tasks: [task.task], prompts: task.prompts }),
    });
    const answer = value.predictions[0];
    parts = elementsOf(answer.tasks ? answer.tasks[task.task] : answer);
  } catch (failure) {
    error = failure.message;
  }
  if (number !== asked) return; // another question came meanwhile
  field("answer").replaceChildren(...parts);
  field("error").textContent = error;
}

async function start() {
  try {
    tasks = (await ask("tasks")).tasks;
  } catch (failure) {
    field("error").textContent = failure.message;
    if (failure.status === 503) setTimeout(start, 1000); // the model is being loaded
    return;
  }
  field("error").textContent = "";
  field("task").replaceChildren(...tasks.map((task) => made("option", task.task)));
  field("of-task").hidden = tasks.length < 2;
  if (tasks.some((task) => task.task === query.get("task"))) field("task").value = query.get("task");
  fitForm();
  field("task").addEventListener("change", fitForm);
  if (waiting) await predict();
}

const query = new URLSearchParams(location.search);
for (const id of ["sentence", "sentence2"]) field(id).value = query.get(id) || "";
waiting = field("sentence").value !== "";
field("question").addEventListener("submit", (event) => {
  event.preventDefault();
  if (tasks.length) predict();
  else waiting = true;
});
start();
