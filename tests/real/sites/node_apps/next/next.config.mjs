// `standalone` while it is built, so that there is a server of its own; nothing where `next start` runs.
export default { output: process.env.OUTPUT };
