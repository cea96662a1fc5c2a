export default defineNuxtConfig({ compatibilityDate: '2025-01-01', telemetry: false, ssr: true });
