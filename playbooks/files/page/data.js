/* Copyright (c) 2026, the fleet.gpu_swarm authors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
'use strict';

// Reads the data of the page, and words that several sections use.

const UNITS = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
const NOTHING = '–';

/** Return the data with names instead of numbers, and each card with its node. */
function decode(text) {
  const data = JSON.parse(text);
  const name = (number) => (number < 0 ? '' : data.names[number]);
  const nodes = new Map(data.nodes.map((node) => [node.id, { ...node, cards: [] }]));
  data.nodes = [...nodes.values()];
  data.cards = data.cards.map((row, index) => decodeCard(row, index, name, nodes)).filter((card) => card.node);
  if (data.queues) data.queues.rows = data.queues.rows.map((queue) => decodeQueue(queue, name));
  data.cards.forEach((card) => card.node.cards.push(card));
  return data;
}

function decodeCard([node, uuid, model, mib, state, reason, parts], index, name, nodes) {
  const card = { index, node: nodes.get(name(node)), uuid, model: name(model), mib, state: name(state), reason };
  card.parts = parts.map(([kind, value, partState, task, service, owner, since]) => ({
    kind: name(kind),
    value: typeof value === 'number' ? '' : value,
    amount: typeof value === 'number' ? value : null,
    state: name(partState),
    task: name(service) + task,
    service: name(service),
    owner: name(owner),
    since,
  }));
  return card;
}

function decodeQueue(queue, name) {
  const work = ([service, state, owner, position, node, since, ends, text, level]) => (
    { service, state: name(state), owner: name(owner), position, node: name(node), since, ends, text: name(text), level });
  return { ...queue, waits: queue.waits.map(work), others: queue.others.map(work) };
}

const isHeld = (part) => Boolean(part.service || part.task);
const isBroken = (card) => card.state === 'faulty' || card.state === 'excluded';
/** Return whether the row stands for a card. Kinds that count an amount have no cards. A lost card may have no UUID. */
const isCard = (card) => Boolean(card.uuid) || !card.parts.length;
const isMig = (card) => card.uuid.startsWith('MIG-');

/** Return a duration in the largest unit that fits at least twice. */
function duration(seconds) {
  if (seconds === null || seconds === undefined) return NOTHING;
  const whole = Math.max(0, Math.floor(seconds));
  const [size, unit] = UNITS.find(([unitSize]) => whole >= 2 * unitSize) || UNITS[UNITS.length - 1];
  return `${Math.floor(whole / size)} ${unit}`;
}

function localTime(seconds) {
  if (seconds === null) return NOTHING;
  const at = new Date(seconds * 1000);
  const two = (number) => String(number).padStart(2, '0');
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

const shortModel = (model) => model.replace(/^NVIDIA-/, '').replace(/^GeForce-/, '').replaceAll('-', ' ');
/** Shorten UUIDs in a sentence. The details of a card show the whole UUID. */
const shortUuids = (text) => text.replace(/((?:GPU|MIG)-[0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '$1…');
/** Return why a card is broken, without its own name. */
const reasonOf = (card) => shortUuids(card.reason).replace(/^(fault|warning) /, '').replace(/^(GPU|MIG)-\S+ /, '') || card.state;
const gibibytes = (mib) => (mib ? `${Math.round(mib / 1024)} GiB` : '');
const count = (number, noun) => `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`;
const compareNames = new Intl.Collator('en', { numeric: true }).compare;

/** Make an element. Texts of the data reach the page only as text nodes and as attributes that cannot run. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ''));
  return element;
}

function fill(id, ...children) {
  const element = document.getElementById(id);
  element.replaceChildren(...children.filter(Boolean));
  return element;
}
