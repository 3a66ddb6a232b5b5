/* Copyright (c) 2026, the fleet.gpu_swarm authors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
// Gives each owner, service or model a colour that stays the same while others come and go.

const COLOURS = 12;
const NO_COLOUR = 'k-other';

function hash(text) {
  let value = 2166136261;
  for (let i = 0; i < text.length; i += 1) value = Math.imul(value ^ text.charCodeAt(i), 16777619);
  return value >>> 0;
}

/** Return a class for each name. ``weights`` says which names are the largest; only these get a colour of their own. */
function assignColours(weights) {
  const largest = [...weights].sort((a, b) => b[1] - a[1] || compareNames(a[0], b[0])).slice(0, COLOURS).map(([name]) => name);
  const taken = new Map();
  for (const name of largest.sort()) {
    let colour = hash(name) % COLOURS;
    while (taken.has(colour)) colour = (colour + 1) % COLOURS;
    taken.set(colour, name);
  }
  return new Map([...taken].map(([colour, name]) => [name, `k${colour}`]));
}

/** Return the name that decides the colour of a part. */
function colourKey(part, card, by) {
  return { owner: part.owner, service: part.service, model: card.model }[by] || '';
}

function weightsOf(data, by) {
  const weights = new Map();
  const add = (name, weight) => name && weights.set(name, (weights.get(name) || 0) + weight);
  for (const card of data.cards) {
    for (const part of card.parts) if (isHeld(part)) add(colourKey(part, card, by), 1 / card.parts.length);
  }
  if (by === 'owner' && data.days) data.days.owners.forEach((name, i) => add(name, 0.001 * data.days.hours[i].reduce((a, b) => a + b, 0)));
  weights.delete('others');
  return weights;
}
