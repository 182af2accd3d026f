export default {
  app: { head: { script: [{ src: 'https://codes.example/widget.js', type: 'module' }] } },
  compatibilityDate: '2026-01-01', telemetry: false,
  vue: { compilerOptions: { isCustomElement: (tag) => tag === 'send-code' } },
};
