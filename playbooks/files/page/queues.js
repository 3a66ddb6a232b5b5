/* Copyright (c) 2026, the fleet.gpu_swarm authors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
// The queues: what each of them uses, what runs, and what waits, since when and why. Hidden in a swarm without queues.

const WORK_AT_FIRST = 6;

function drawQueues(data) {
  const section = document.getElementById('queues');
  section.hidden = !data.queues;
  if (!data.queues) return;
  fill('queues-list',
    data.queues.problem ? make('p', { class: 'note' }, `Nothing is admitted: ${data.queues.problem}`) : null,
    ...data.queues.rows.map((queue) => drawQueue(queue, data.at)));
}

function drawQueue(queue, at) {
  const { waiting, ...others } = queue.counts;
  const facts = [
    ...Object.entries(others).map(([state, number]) => (number ? `${number.toLocaleString('en')} ${state}` : '')),
    `${waiting.toLocaleString('en')} waiting${queue.since === null ? '' : ` for up to ${duration(at - queue.since)}`}`,
    queue.share === null ? '' : `share ${(100 * queue.share).toLocaleString('en', { maximumFractionDigits: 1 })} %`,
    queue.weight === null || queue.weight === 1 ? '' : `weight ${queue.weight}`,
  ];
  return make('article', { class: 'queue' },
    make('div', { class: 'title' }, make('h3', {}, queue.name || 'no such queue'), make('span', { class: 'waits' }, facts.filter(Boolean).join(' · '))),
    queue.used.length ? make('div', { class: 'use' }, ...queue.used.map(usedOf)) : null,
    workList(queue.others, Object.values(others).reduce((total, number) => total + number, 0), at, 'Admitted'),
    workList(queue.waits, waiting, at, 'Waiting'));
}

function usedOf([kind, used, most]) {
  const label = make('span', { class: 'kinds' }, most === null ? `${used} ${kind}` : `${used} of at most ${most} ${kind}`);
  if (most === null) return make('div', {}, label);
  const bar = make('span', { class: 'bar' });
  bar.style.width = `${Math.min(100, (100 * used) / Math.max(most, 1))}%`;
  return make('div', {}, make('span', { class: 'track' }, bar), label);
}

/** List the first pieces of work. A button lists the rest of the page's data, and the number of pieces that the page does not have. */
function workList(work, total, at, label) {
  if (!work.length) return null;
  const list = make('ol', { class: 'work', 'aria-label': label }, ...work.slice(0, WORK_AT_FIRST).map((piece) => workRow(piece, at)));
  const box = make('div', { class: 'works' }, list);
  const sayMore = () => total > work.length && box.append(make('p', { class: 'more' }, `and ${(total - work.length).toLocaleString('en')} more`));
  const left = work.length - WORK_AT_FIRST;
  if (left <= 0) {
    sayMore();
    return box;
  }
  const button = make('button', { type: 'button', class: 'more' }, `Show ${left} more`);
  button.addEventListener('click', () => {
    list.append(...work.slice(WORK_AT_FIRST).map((piece) => workRow(piece, at)));
    button.remove();
    sayMore();
  });
  box.append(button);
  return box;
}

function workRow(piece, at) {
  const ends = piece.ends === null ? '' : `ends at ${localTime(piece.ends).slice(11)} at the latest`;
  const text = [piece.node ? `on ${piece.node}` : '', piece.text, ends].filter(Boolean).join('; ');
  return make('li', { class: piece.level },
    make('span', { class: 'place' }, piece.position === null ? '' : `${piece.position}.`),
    make('span', { class: 'state' }, piece.state),
    make('b', { class: 'service', title: piece.service }, piece.service),
    make('span', { class: 'owner', title: piece.owner }, piece.owner),
    make('span', { class: 'time', title: localTime(piece.since) }, piece.since === null ? '' : duration(at - piece.since)),
    make('span', { class: 'text' }, text));
}
