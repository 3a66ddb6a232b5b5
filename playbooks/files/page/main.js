/* Copyright (c) 2026, the fleet.gpu_swarm authors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
// Starts the page: draws it, keeps the form's values in the address, and reads newer data from the server that serves the page.

const READ_AGAIN_MS = 20000;
const DEFAULTS = { search: '', model: '', owner: '', node: '', state: '', sort: 'name', colour: '', size: 'auto' };
const CHOICES = {
  state: [['', 'All'], ['free', 'Free'], ['allocated', 'Allocated'], ['closed', 'Closed'], ['faulty', 'Faulty'], ['excluded', 'Excluded']],
  sort: Object.entries(SORTS).map(([value, [label]]) => [value, label]),
  colour: [['owner', 'Owner'], ['service', 'Service'], ['model', 'Model'], ['state', 'State']],
  size: [['auto', 'Automatic'], ['tiles', 'Large'], ['dots', 'Small']],
};
const ICON_COLOURS = { red: '#bf1219', amber: '#f3aa0c', green: '#12703a', stale: '#6b7280' };
const byId = (id) => document.getElementById(id);

let source = byId('data').textContent;
let data = decode(source);
let clockAhead = 0; // how many seconds the browser's clock is ahead of the server's clock
let options = readOptions();
const fleet = new Fleet(byId('grid'), (card) => openDetails(card, data));

// -- options ---------------------------------------------------------------------------------------------------------

function readOptions() {
  const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const known = Object.keys(DEFAULTS).filter((name) => name in given && (!CHOICES[name] || CHOICES[name].some(([value]) => value === given[name])));
  return { ...DEFAULTS, colour: data.cards.some((card) => card.parts.some((part) => part.owner)) ? 'owner' : 'service', ...Object.fromEntries(known.map((name) => [name, given[name]])) };
}

function storeOptions() {
  const changed = Object.entries(options).filter(([name, value]) => value !== DEFAULTS[name] && !(name === 'colour' && value === 'owner'));
  history.replaceState(null, '', `#${new URLSearchParams(changed)}`);
}

function choose(changes) {
  Object.assign(options, changes);
  storeOptions();
  fillForm();
  if ('sort' in changes || 'colour' in changes || 'size' in changes) drawFleet();
  else fleet.filter(options);
  markLegend();
}

function fillForm() {
  const sorted = (values) => [...new Set(values)].filter(Boolean).sort(compareNames).map((value) => [value, value]);
  const choices = {
    ...CHOICES,
    model: [['', 'All'], ...sorted(data.cards.map((card) => card.model)).map(([value]) => [value, shortModel(value)])],
    owner: [['', 'All'], ...sorted(data.cards.flatMap((card) => card.parts.map((part) => part.owner)))],
    node: [['', 'All'], ...sorted(data.nodes.map((node) => node.name))],
  };
  for (const [name, values] of Object.entries(choices)) {
    if (options[name] && !values.some(([value]) => value === options[name])) values.push([options[name], options[name]]);
    fill(name, ...values.map(([value, label]) => make('option', { value, selected: value === options[name] }, label)));
    byId(name).value = options[name];
  }
  if (byId('search').value !== options.search) byId('search').value = options.search;
  byId('clear').hidden = !['search', 'model', 'owner', 'node', 'state'].some((name) => options[name]);
}

// -- drawing ---------------------------------------------------------------------------------------------------------

function drawFleet() {
  fleet.draw(data, options, assignColours(weightsOf(data, options.colour)));
  drawLegend();
}

function drawLegend() {
  const weights = weightsOf(data, options.colour);
  const colours = assignColours(weights);
  const chips = options.colour === 'state' ? [['k-state', 'allocated', { state: 'allocated' }]]
    : [...weights].filter(([name, weight]) => colours.has(name) && weight > 0.5e-1).sort((a, b) => b[1] - a[1]).map(([name]) => [colours.get(name), name, filterFor(name)]);
  if (weights.size > COLOURS) chips.push([NO_COLOUR, `${weights.size - COLOURS} others`, null]);
  for (const state of ['free', 'closed', 'faulty', 'excluded']) if (data.cards.some((card) => card.state === state)) chips.push([`swatch-${state}`, state, { state }]);
  fill('legend', ...chips.map(([colour, label, changes]) => chip(colour, label, changes)));
}

function filterFor(name) {
  return { owner: { owner: name }, model: { model: name }, service: { search: name } }[options.colour] || null;
}

function chip(colour, label, changes) {
  const inner = [make('i', { class: `swatch ${colour}` }), label];
  if (!changes) return make('span', { class: 'chip' }, ...inner);
  const [[name, value]] = Object.entries(changes);
  const button = make('button', { type: 'button', class: 'chip', 'data-name': name, 'data-value': value, 'aria-pressed': String(options[name] === value) }, ...inner);
  button.addEventListener('click', () => choose({ [name]: options[name] === value ? '' : value }));
  return button;
}

function markLegend() {
  document.querySelectorAll('#legend button').forEach((button) => button.setAttribute('aria-pressed', String(options[button.dataset.name] === button.dataset.value)));
}

function drawAll() {
  const ownerColours = assignColours(weightsOf(data, 'owner'));
  drawFigures(data, goTo);
  fillForm();
  drawFleet();
  drawPending(data);
  drawQueues(data);
  drawOwners(data, ownerColours, (owner) => { if (owner) choose({ owner }); goTo('fleet'); });
  drawChart(data, ownerColours);
  if (chart) readDay(data.days, null, ownerColours, document.querySelector('.readout'));
  drawEvents(data);
  drawAge();
}

function goTo(id) {
  byId(id).scrollIntoView({ block: 'start' });
  byId(id).focus({ preventScroll: true });
}

// -- age and newer data ----------------------------------------------------------------------------------------------

function drawAge() {
  const age = Date.now() / 1000 - clockAhead - data.at;
  const stale = age > data.stale_after;
  document.body.classList.toggle('stale', stale);
  drawIcon(stale ? 'stale' : data.verdict.level);
  const text = age < 2 ? 'just now' : `${duration(age)} ago`;
  const time = () => make('time', { datetime: new Date(data.at * 1000).toISOString(), title: localTime(data.at) }, text);
  fill('read', make('span', { class: 'age' }, stale ? 'Stale: read ' : 'Read ', time()), ` on ${data.manager || NOTHING}`);
  fill('footer', make('p', {}, 'Read ', make('span', { class: stale ? 'struck' : '' }, `${localTime(data.at)}, ${text}`), ` by ${data.manager || NOTHING}`),
    data.grafana ? make('p', {}, grafanaLink(data.grafana)) : null);
}

/** Give the tab of the browser the colour of the verdict. */
function drawIcon(level) {
  const circle = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="8" fill="${ICON_COLOURS[level]}"/></svg>`;
  const icon = document.querySelector('link[rel=icon]');
  const address = `data:image/svg+xml,${encodeURIComponent(circle)}`;
  if (icon.getAttribute('href') !== address) icon.href = address;
}

function drawVerdict() {
  const { level, headline, reasons, more } = data.verdict;
  const sign = { red: '✕', amber: '!', green: '✓' }[level];
  document.body.dataset.level = level;
  document.title = `${sign} ${headline} – GPU fleet`;
  document.querySelector('.sign').textContent = sign;
  fill('headline', headline);
  fill('reasons',
    ...reasons.map((reason) => make('li', { class: `reason ${reason.level}` }, make('b', {}, reason.name), ' ', make('span', {}, reason.text))),
    more ? make('li', { class: 'more' }, `and ${more} more`) : null);
}

/** Read this page again from the server that served it. If that fails, the page stays and becomes stale. */
async function readAgain() {
  try {
    const answer = await fetch(location.pathname + location.search, { cache: 'no-cache' });
    const server = Date.parse(answer.headers.get('Date'));
    if (server) clockAhead = (Date.now() - server) / 1000;
    if (answer.ok) show(await answer.text());
  } catch (error) { // no server, or another page. The age on the screen shows that the data is old
    console.info(error);
  }
}

function show(text) {
  const start = text.indexOf('<script type="application/json" id="data">');
  const json = text.slice(text.indexOf('>', start) + 1, text.indexOf('\u003c/script>', start));
  if (start < 0 || json === source) return;
  const newer = decode(json);
  if (newer.version !== data.version) location.reload();
  source = json;
  data = newer;
  drawVerdict();
  drawAll();
}

// -- start -----------------------------------------------------------------------------------------------------------

function listen() {
  byId('filters').addEventListener('input', (event) => choose({ [event.target.id]: event.target.value }));
  byId('filters').addEventListener('submit', (event) => event.preventDefault());
  byId('filters').addEventListener('reset', (event) => {
    event.preventDefault();
    choose({ search: '', model: '', owner: '', node: '', state: '' });
  });
  document.addEventListener('keydown', (event) => {
    const typing = event.target.closest('input, select, dialog');
    if (event.key === '/' && !typing) { event.preventDefault(); byId('search').focus(); }
    if (event.key === 'Escape' && event.target.id === 'search') choose({ search: '' });
  });
  const redrawChart = () => {
    const colours = assignColours(weightsOf(data, 'owner'));
    drawChart(data, colours);
    if (chart) readDay(data.days, null, colours, document.querySelector('.readout'));
  };
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redrawChart);
  let width = innerWidth;
  addEventListener('resize', () => { if (innerWidth !== width) { width = innerWidth; redrawChart(); } });
  addEventListener('hashchange', () => choose(readOptions()));
  byId('details').addEventListener('click', (event) => { if (event.target === event.currentTarget) event.currentTarget.close(); });
}

byId('app').hidden = false;
listen();
drawAll();
setInterval(drawAge, 1000);
if (data.live && location.protocol.startsWith('http')) {
  readAgain();
  setInterval(readAgain, READ_AGAIN_MS);
}
