/* Copyright (c) 2026, the fleet.gpu_swarm authors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
// The other sections: totals, what is pending, owners, events, and the details of a card.

const EVENTS_AT_FIRST = 40;
const EVENT_LEVELS = {
  'node-down': 'red', fault: 'red', 'card-gone': 'red', 'allocated-twice': 'red',
  'node-paused': 'amber', 'node-drained': 'amber', 'guard-refusal': 'amber', 'work-lost': 'amber', gap: 'amber',
  'node-up': 'green', 'node-returned': 'green', 'fault-ended': 'green', 'card-back': 'green',
};

function drawFigures(data, goTo) {
  const cards = data.cards.filter((card) => isCard(card) && !isMig(card));
  const migs = data.cards.filter(isMig);
  const of = (state, rows = cards) => rows.filter((card) => card.state === state).length;
  const ready = data.nodes.filter((node) => node.level === 'green').length;
  const figure = (value, total, label, target, level) => {
    const number = make('span', { class: 'number' }, value.toLocaleString('en'), total === null ? '' : make('small', {}, `/${total.toLocaleString('en')}`));
    const button = make('button', { type: 'button', class: `figure ${level || ''}` }, number, make('span', { class: 'label' }, label));
    button.addEventListener('click', () => goTo(target));
    return button;
  };
  const broken = data.cards.filter(isBroken).length;
  fill('figures',
    cards.length ? figure(of('allocated'), cards.length, 'GPUs allocated', 'owners') : null,
    cards.length ? figure(of('free'), null, 'GPUs free', 'fleet') : null,
    migs.length ? figure(of('allocated', migs), migs.length, 'MIG devices allocated', 'owners') : null,
    ...amounts(data).map(([kind, held, total]) => figure(held, total, `${kind} allocated`, 'owners')),
    figure(broken, null, 'faulty or excluded', 'fleet', broken ? 'red' : ''),
    figure(ready, data.nodes.length, 'nodes ready', 'fleet', ready < data.nodes.length ? 'amber' : ''),
    data.queues ? figure(data.queues.rows.reduce((total, queue) => total + queue.counts.waiting, 0), null, 'waiting in queues', 'queues') : null,
    figure(data.pending_total, null, data.pending_total === 1 ? 'service pending' : 'services pending', 'pending', data.pending_total ? 'amber' : ''));
}

/** Return the kinds that count an amount: kind, allocated, total. */
function amounts(data) {
  const kinds = new Map();
  for (const part of data.cards.flatMap((card) => card.parts).filter(({ amount }) => amount !== null)) {
    const [held, total] = kinds.get(part.kind) || [0, 0];
    kinds.set(part.kind, [held + (isHeld(part) ? part.amount : 0), total + part.amount]);
  }
  return [...kinds].map(([kind, [held, total]]) => [kind, held, total]);
}

// -- what is pending -------------------------------------------------------------------------------------------------

function drawPending(data) {
  if (!data.pending.length) return fill('pending-list', make('p', { class: 'calm' }, 'Nothing is pending.'));
  const left = data.pending_total - data.pending.length;
  return fill('pending-list',
    make('ul', { class: 'cards' }, ...data.pending.map((service) => pendingService(service, data.at))),
    left > 0 ? make('p', { class: 'more' }, `and ${left.toLocaleString('en')} more`) : null);
}

function pendingService(service, at) {
  const since = service.since ? at - service.since : service.age;
  const waits = [service.tasks ? count(service.tasks, 'task') : '', since !== null ? `for ${duration(since)}` : ''].filter(Boolean).join(' ');
  return make('li', { class: service.level },
    make('div', { class: 'title' }, make('b', {}, service.service), make('span', { class: 'waits' }, waits)),
    make('p', {}, service.text),
    service.misses.length ? make('ul', { class: 'misses' }, ...service.misses.map((miss) => make('li', {}, miss))) : null);
}

// -- owners ----------------------------------------------------------------------------------------------------------

/** Sum what each owner has now, and the last 7 days. MIG devices count as parts, because their share of a card is not known here. */
function ownersOf(data) {
  const owners = new Map();
  const entry = (name) => owners.get(name) || owners.set(name, { name, cards: 0, parts: 0, kinds: new Map(), hours: null, estimated: 0 }).get(name);
  for (const card of data.cards) {
    for (const part of card.parts.filter(isHeld)) {
      const owner = entry(part.owner);
      if (part.amount !== null) owner.kinds.set(part.kind, (owner.kinds.get(part.kind) || 0) + part.amount);
      else if (isMig(card)) owner.parts += 1;
      else owner.cards += 1 / card.parts.length;
    }
  }
  for (const row of data.usage || []) {
    const owner = entry(row.name);
    if (row.cards !== null) owner.hours = (owner.hours || 0) + row.cards;
    if (row.hours > 0) owner.estimated = Math.max(owner.estimated, (row.estimated || 0) / row.hours);
  }
  return [...owners.values()].sort((a, b) => b.cards - a.cards || b.parts - a.parts || (b.hours || 0) - (a.hours || 0) || compareNames(a.name, b.name));
}

function drawOwners(data, colours, choose) {
  const owners = ownersOf(data);
  if (!owners.length) return fill('owners-list', make('p', { class: 'calm' }, 'Nobody has a GPU.'));
  const most = Math.max(...owners.map((owner) => owner.cards), 1);
  const head = make('tr', {}, ...['Owner', 'Now', ...(data.usage ? ['7 days'] : [])].map((text) => make('th', { scope: 'col' }, text)));
  const rows = owners.slice(0, 30).map((owner) => ownerRow(owner, most, colours, data, choose));
  const left = owners.length - rows.length;
  return fill('owners-list',
    make('table', { class: 'owners' }, make('thead', {}, head), make('tbody', {}, ...rows)),
    left > 0 ? make('p', { class: 'more' }, `and ${count(left, 'more owner')}`) : null,
    data.usage ? null : make('p', { class: 'note' }, 'Usage is not recorded: gpu_swarm_record is false, or the record could not be read.'));
}

function ownerRow(owner, most, colours, data, choose) {
  const colour = colours.get(owner.name) || NO_COLOUR;
  const name = make('button', { type: 'button', class: 'link' }, make('i', { class: `swatch ${colour}` }), make('span', {}, owner.name || 'no owner'));
  name.addEventListener('click', () => choose(owner.name));
  const bar = make('span', { class: `bar ${colour}` });
  bar.style.width = `${(100 * owner.cards) / most}%`;
  const number = (value) => value.toLocaleString('en', { maximumFractionDigits: 1 });
  const others = [owner.parts ? count(owner.parts, 'MIG device') : '', ...[...owner.kinds].map(([kind, sum]) => `${number(sum)} ${kind}`)].filter(Boolean);
  const cells = [
    make('th', { scope: 'row' }, name),
    make('td', {}, make('span', { class: 'track' }, bar), make('span', { class: 'value' }, number(owner.cards)),
      others.length ? make('span', { class: 'kinds' }, others.join(', ')) : null),
  ];
  if (data.usage) cells.push(make('td', { class: 'number' }, owner.hours === null ? '' : `${number(owner.hours)} h`, estimated(owner)));
  return make('tr', {}, ...cells);
}

function estimated(owner) {
  const percent = Math.round(100 * owner.estimated);
  return percent ? make('small', { class: 'kinds' }, `${percent} % estimated`) : '';
}

// -- events ----------------------------------------------------------------------------------------------------------

function drawEvents(data, all = false) {
  if (!data.events) return fill('events-list', make('p', { class: 'note' }, 'Events are not recorded: gpu_swarm_record is false, or the record could not be read.'));
  if (!data.events.length) return fill('events-list', make('p', { class: 'calm' }, 'Nothing happened.'));
  const shown = all ? data.events : data.events.slice(0, EVENTS_AT_FIRST);
  const rows = shown.map((event) => make('li', { class: EVENT_LEVELS[event.what] || '' },
    make('time', { title: localTime(event.at) }, event.at === null ? NOTHING : localTime(event.at).slice(11)),
    make('span', { class: 'what' }, event.what.replaceAll('-', ' ')),
    make('b', {}, event.node || ''),
    make('span', { class: 'text' }, event.text)));
  const left = data.events_total - shown.length;
  const button = left > 0 && !all ? make('button', { type: 'button', class: 'more' }, `Show ${Math.min(left, data.events.length - shown.length)} more`) : null;
  button?.addEventListener('click', () => drawEvents(data, true));
  return fill('events-list', make('ol', { class: 'events' }, ...rows), button);
}

// -- details ---------------------------------------------------------------------------------------------------------

function openDetails(card, data) {
  const pair = (term, value) => (value ? [make('dt', {}, term), make('dd', {}, value)] : []);
  const held = card.parts.filter((part) => isHeld(part) || card.parts.length > 1).map((part) => make('li', {},
    make('b', {}, isHeld(part) ? part.task : 'free'),
    make('span', {}, [part.owner, part.since ? `since ${localTime(part.since)} (${duration(data.at - part.since)})` : ''].filter(Boolean).join(' · ')),
    make('code', {}, part.amount !== null ? `${part.amount} ${part.kind}` : `${part.kind} ${part.value || card.uuid}`)));
  const close = make('button', { type: 'button', class: 'close', 'aria-label': 'Close' }, '✕');
  const dialog = fill('details', close,
    make('h2', { id: 'details-title' }, `${card.node.name} · ${card.model ? shortModel(card.model) : card.parts[0]?.kind || ''}`),
    make('p', { class: `state ${card.state}` }, [card.state, card.reason].filter(Boolean).join(': ')),
    make('dl', {}, ...pair('GPU', card.uuid && make('code', {}, card.uuid)), ...pair('Model', card.model), ...pair('Memory', gibibytes(card.mib)),
      ...pair('Node', [card.node.name, card.node.state, card.node.why].filter(Boolean).join(' · '))),
    held.length ? make('ul', { class: 'holders' }, ...held) : null,
    data.grafana ? make('p', {}, grafanaLink(data.grafana)) : null);
  close.addEventListener('click', () => dialog.close());
  dialog.showModal();
}

function grafanaLink(url) {
  return make('a', { href: url, target: '_blank', rel: 'noopener noreferrer' }, 'Temperature, power and utilisation in Grafana ↗');
}
