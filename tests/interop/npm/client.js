// client.js HOST PORT: the npm package msgpack5rpc. Prints what expected.txt holds.
'use strict';
const net = require('net');
const Session = require('msgpack5rpc');

const session = new Session();

const call = (method, params) =>
  new Promise((resolve, reject) =>
    session.request(method, [params], (error, result) => (error === null ? resolve(result) : reject(error))));

const wait = (ms) => (ms === 0 ? 'now' : ms === -1 ? 'never' : 'later');

function show(title, got) {
  const limit = got.limits[0];
  const words = [got.allowed, got.action, got.decided_by || '-', limit.name, limit.limit, limit.remaining];
  console.log(`${title}: ${words.join(' ')} ${wait(got.retry_after_ms)}`);
  return got;
}

async function repeat(times, title, method, params) {
  for (let i = 0; i < times; i++) {
    show(title, await call(method, params));
  }
}

async function rates() {
  const first = { client: 'npm-0' };
  const second = { client: 'npm-1' };
  await repeat(4, 'check', 'check', { attributes: first });
  await repeat(1, 'check too dear', 'check', { attributes: second, cost: 4 });
  await repeat(2, 'same id', 'check', { attributes: second, id: Buffer.from('npm-once') });
  await repeat(2, 'peek', 'check', { attributes: second, peek: true });
  const requests = Array(3).fill({ attributes: second });
  (await call('check_many', { requests })).forEach((got) => show('check many', got));
  await repeat(3, 'throttle', 'throttle', { key: 'npm', rate: '2/d' });
}

async function leases() {
  const pool = { attributes: { pool: 'npm' } };
  const held = show('lease', await call('check', pool));
  show('lease taken', await call('check', pool));
  for (const title of ['release', 'release again']) {
    console.log(`${title}: ${(await call('release', { lease: held.limits[0].lease })).released}`);
  }
  show('lease', await call('check', pool));
}

async function fails(title, method, params) {
  const error = await call(method, params).then(() => 'no error', (text) => text);
  console.log(`${title}: ${error.split(':')[0]}`);
}

async function atOnce() {
  const calls = Array.from({ length: 20 }, () => call('check', { attributes: { client: 'npm-2' } }));
  const got = await Promise.all(calls);
  console.log(`at once: ${got.filter((one) => one.allowed).length} of ${got.length}`);
}

async function main() {
  await rates();
  await leases();
  await fails('unknown method', 'no_such_method', {});
  await fails('no attributes', 'check', { cost: 1 });
  await atOnce();
}

const socket = net.connect(Number(process.argv[3]), process.argv[2], () => {
  session.attach(socket, socket);
  main().then(() => socket.destroy(), (error) => {
    console.error(error);
    process.exit(1);
  });
});
