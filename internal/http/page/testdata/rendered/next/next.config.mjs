export default { turbopack: { root: new URL('..', import.meta.url).pathname } };
