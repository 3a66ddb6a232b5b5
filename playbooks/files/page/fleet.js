/* Copyright (c) 2026, the fleet.gpu_swarm authors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
// The fleet: a row for each node, a tile for each card.

const CHUNK = 60; // rows that are drawn at once, so that a large fleet does not block the browser
const SORTS = {
  name: ['Name', () => 0],
  problems: ['Problems first', (node) => ({ red: 0, amber: 1 }[node.level] ?? (node.cards.some(isBroken) ? 0.5 : 2))],
  free: ['Most free', (node) => -freeCards(node)],
  model: ['Model', (node) => modelOf(node) || '\uffff'],
};

const freeCards = (node) => node.cards.filter((card) => card.state === 'free').length;

/** Return the model of all cards of a node, or '' if they differ. */
function modelOf(node) {
  const models = new Set(node.cards.map((card) => card.model));
  return models.size === 1 ? [...models][0] : '';
}

/** Return the domain that all nodes share, with its dot, or ''. */
function commonDomain(nodes) {
  const domains = new Set(nodes.map(({ name }) => (name.includes('.') ? name.slice(name.indexOf('.')) : '')));
  return domains.size === 1 ? [...domains][0] : '';
}

class Fleet {
  constructor(grid, onOpen) {
    this.grid = grid;
    this.rows = [];
    this.onOpen = onOpen;
    grid.addEventListener('click', (event) => this.open(event.target.closest('.tile')));
    grid.addEventListener('keydown', (event) => this.key(event));
    grid.addEventListener('focusin', (event) => this.focused(event.target.closest('.tile')));
  }

  /** Draw the fleet again. ``options`` are the values of the form. */
  draw(data, options, colours) {
    const focused = document.activeElement?.closest?.('.tile')?.dataset.key;
    Object.assign(this, { data, options, colours, rows: [], drawing: {} });
    this.dense = options.size === 'dots' || (options.size === 'auto' && data.cards.length > 192);
    this.domain = commonDomain(data.nodes);
    this.grid.classList.toggle('dense', this.dense);
    this.grid.classList.toggle('large', data.nodes.length > CHUNK);
    this.grid.style.minHeight = `${this.grid.offsetHeight}px`; // so that the page does not scroll while rows are drawn
    this.grid.replaceChildren();
    this.drawFrom(this.sorted(), 0, this.drawing, focused);
  }

  sorted() {
    const [, weight] = SORTS[this.options.sort] || SORTS.name;
    const compare = (a, b) => (typeof a === 'string' ? compareNames(a, b) : a - b);
    const hasCards = (node) => (node.cards.length ? 0 : 1);
    return [...this.data.nodes].sort(
      (a, b) => compare(weight(a), weight(b)) || hasCards(a) - hasCards(b) || compareNames(a.name, b.name));
  }

  drawFrom(nodes, start, drawing, focused) {
    if (drawing !== this.drawing) return; // newer data is being drawn
    const rows = nodes.slice(start, start + CHUNK).map((node) => this.row(node));
    rows.forEach((row) => this.match(row));
    this.rows.push(...rows);
    this.grid.append(...rows.map((row) => row.element));
    this.restoreFocus(focused);
    if (start + CHUNK < nodes.length) setTimeout(() => this.drawFrom(nodes, start + CHUNK, drawing, focused));
    else this.report();
  }

  row(node) {
    const tiles = node.cards.map((card) => ({ card, element: this.tile(card, node) }));
    const body = tiles.length ? tiles.map((tile) => tile.element) : [make('span', { class: 'none', role: 'gridcell' }, this.dense ? '' : 'no GPUs')];
    const element = make('div', { class: `node ${node.level}`, role: 'row' }, this.heading(node), make('div', { class: 'tiles', role: 'none' }, ...body));
    return { node, element, tiles };
  }

  heading(node) {
    const allocated = node.cards.filter((card) => card.state === 'allocated').length;
    const details = [modelOf(node) && shortModel(modelOf(node)), node.cards.some(isCard) && `${allocated}/${node.cards.filter(isCard).length}`];
    const ready = node.level === 'green';
    const why = [node.state, node.why].filter(Boolean).join(': ');
    const short = shortUuids(why);
    const parts = [make('b', {}, (this.dense ? node.name.slice(0, node.name.length - this.domain.length) : node.name) || NOTHING)];
    if (this.dense) {
      if (!ready) parts.push(make('span', { class: 'pill' }, node.state));
    } else {
      parts.push(make('span', { class: 'model' }, details.filter(Boolean).join(' · ') || node.role));
      if (!ready) parts.push(make('span', { class: 'why' }, short));
    }
    return make('div', { class: 'name', role: 'rowheader', title: ready ? node.name : `${node.name}: ${why}` }, ...parts);
  }

  // -- tiles ---------------------------------------------------------------------------------------------------------

  tile(card, node) {
    const shared = card.parts.length > 1;
    const label = describeCard(card, this.data.at);
    const classes = ['tile', card.state, shared && 'shared', !isCard(card) && 'amount', !shared && this.colour(card.parts[0], card)];
    const attributes = { class: classes.filter(Boolean).join(' '), role: 'gridcell', tabindex: -1, 'aria-label': label, 'data-index': card.index };
    const tile = make('div', { ...attributes, 'data-key': `${card.node.id} ${card.uuid || card.index}`, title: this.dense ? label : null });
    if (shared) tile.append(...(this.dense ? [] : [this.sharedHead(card)]), this.partsOf(card));
    else if (!this.dense) tile.append(...wholeTile(card, node, this.data.at));
    if (!this.dense && isBroken(card)) tile.append(make('span', { class: 'reason' }, reasonOf(card)));
    return tile;
  }

  sharedHead(card) {
    const held = card.parts.filter(isHeld);
    const amount = (parts) => parts.reduce((sum, part) => sum + (part.amount || 0), 0);
    const text = isCard(card) ? `${held.length} of ${card.parts.length} parts` : `${card.parts[0].kind} ${amount(held)} of ${amount(card.parts)}`;
    return make('span', { class: 'head' }, text);
  }

  partsOf(card) {
    const parts = card.parts.map((part) => {
      const element = make('span', { class: ['part', isHeld(part) ? '' : 'free', this.colour(part, card)].join(' ') });
      if (part.amount !== null) element.style.flexGrow = part.amount;
      if (!this.dense) element.append(make('span', {}, part.service || 'free'));
      return element;
    });
    return make('span', { class: 'parts', 'aria-hidden': 'true' }, ...parts);
  }

  colour(part, card) {
    if (!part || !isHeld(part)) return '';
    if (this.options.colour === 'state') return 'k-state';
    return this.colours.get(colourKey(part, card, this.options.colour)) || NO_COLOUR;
  }

  // -- search and filters --------------------------------------------------------------------------------------------

  filter(options) {
    this.options = options;
    this.rows.forEach((row) => this.match(row));
    this.report();
  }

  match(row) {
    const { node, model, owner, state, search } = this.options;
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    const narrow = Boolean(words.length || model || owner || state);
    row.matching = 0;
    for (const { card, element } of row.tiles) {
      const fits = (!model || card.model === model) && (!owner || card.parts.some((part) => part.owner === owner))
        && (!state || card.state === state) && words.every((word) => haystack(card).includes(word));
      element.classList.toggle('dim', !fits);
      row.matching += fits;
    }
    const named = !model && !owner && !state && words.every((word) => `${row.node.name} ${row.node.state} ${row.node.why}`.toLowerCase().includes(word));
    if (named && narrow) row.tiles.forEach(({ element }) => element.classList.remove('dim'));
    row.element.hidden = Boolean(node && row.node.name !== node) || (narrow && !row.matching && !named);
  }

  report() {
    this.grid.style.minHeight = '';
    const shown = this.rows.filter((row) => !row.element.hidden);
    const cards = shown.reduce((sum, row) => sum + row.matching, 0);
    const { node, model, owner, state, search } = this.options;
    const text = shown.length ? `${count(cards, 'GPU')} on ${count(shown.length, 'node')}` : 'Nothing matches.';
    const left = this.data.nodes_total - this.data.nodes.length;
    fill('found', node || model || owner || state || search ? text : left ? `and ${count(left, 'more node')}` : '');
    const first = shown.find((row) => row.tiles.length);
    if (first && !this.grid.querySelector('.tile[tabindex="0"]')) first.tiles[0].element.tabIndex = 0;
  }

  // -- keys ----------------------------------------------------------------------------------------------------------

  open(tile) {
    if (tile) this.onOpen(this.data.cards.find((card) => card.index === Number(tile.dataset.index)));
  }

  focused(tile) {
    if (!tile) return;
    this.grid.querySelectorAll('.tile[tabindex="0"]').forEach((other) => { other.tabIndex = -1; });
    tile.tabIndex = 0;
  }

  restoreFocus(key) {
    if (key) this.rows.flatMap((row) => row.tiles).find(({ element }) => element.dataset.key === key)?.element.focus({ preventScroll: true });
  }

  key(event) {
    const tile = event.target.closest('.tile');
    if (!tile || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Enter' || event.key === ' ') this.open(tile);
    else if (!this.move(tile, event.key)) return;
    event.preventDefault();
  }

  move(tile, key) {
    const rows = this.rows.filter((row) => !row.element.hidden && row.tiles.length).map((row) => row.tiles.map(({ element }) => element));
    const y = rows.findIndex((row) => row.includes(tile));
    const x = rows[y].indexOf(tile);
    const clamp = (value, length) => Math.min(Math.max(value, 0), length - 1);
    const target = { ArrowLeft: [y, x - 1], ArrowRight: [y, x + 1], ArrowUp: [y - 1, x], ArrowDown: [y + 1, x], Home: [y, 0], End: [y, Infinity] }[key];
    if (!target) return false;
    const row = rows[clamp(target[0], rows.length)];
    row[clamp(target[1], row.length)].focus();
    return true;
  }
}

/** Return the texts on the tile of a card with one part. */
function wholeTile(card, node, at) {
  const part = card.parts[0];
  const model = modelOf(node) ? '' : shortModel(card.model);
  if (!part || !isHeld(part)) return [make('b', {}, isBroken(card) ? '' : card.state), make('small', {}, model)];
  const age = part.since ? duration(at - part.since) : '';
  return [make('b', {}, part.service || part.task), make('small', {}, [part.owner, age].filter(Boolean).join(' · ')), make('small', {}, model)];
}

/** Return a card in one sentence, for screen readers and as a tooltip. */
function describeCard(card, at) {
  const held = card.parts.filter(isHeld).map((part) => {
    const age = part.since ? `for ${duration(at - part.since)}` : '';
    return [part.amount !== null ? `${part.amount} ${part.kind}` : '', part.task, part.owner && `(${part.owner})`, age].filter(Boolean).join(' ');
  });
  const shares = card.parts.length > 1 ? `, ${held.length} of ${card.parts.length} parts allocated` : '';
  const what = [card.node.name, card.model && shortModel(card.model), gibibytes(card.mib)].filter(Boolean).join(', ');
  return `${what}: ${card.state}${shares}${card.reason ? `, ${card.reason}` : ''}${held.length ? `; ${held.join('; ')}` : ''}`;
}

function haystack(card) {
  if (!card.haystack) {
    const parts = card.parts.flatMap((part) => [part.kind, part.value, part.task, part.service, part.owner]);
    card.haystack = [card.node.name, card.uuid, card.model, card.state, card.reason, ...parts].join(' ').toLowerCase();
  }
  return card.haystack;
}
