// node build.js WIT COMPONENT: makes the component of app.js, beside which the packages are installed.

import { readFile, writeFile } from 'node:fs/promises';
import { componentize } from '@bytecodealliance/componentize-js';

const [wit, target] = process.argv.slice(2);
const source = await readFile(new URL('app.js', import.meta.url), 'utf8');
const { component } = await componentize(source, {
  witPath: wit,
  worldName: 'wasi:http/proxy@0.2.12',
  disableFeatures: ['fetch-event'],
});
await writeFile(target, component);
