// Loaded before the application, as Sentry's documents have it.
require('@sentry/node').init({ dsn: process.env.SENTRY_DSN, tracesSampleRate: 1 });
