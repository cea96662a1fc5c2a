// `--loader unit-http/loader.mjs`: as in `loader.js`; a loader without hooks changes nothing.
export {};
